import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { attach } from '../cli/tui/attached.ts'
import { DIST } from '../run-panel.ts'

test('the console screen stays flat in memory over 1,000,000 lines', { timeout: 240_000 }, async () => {
  const { pane, peer, folder, command, close } = await attach({
    dist: DIST,
    columns: 120,
    rows: 40,
    start: false,
  })
  try {
    const report = join(folder, 'report')
    await pane.text(command({ report }))
    await pane.keys('Enter')
    await pane.shows('LIVE', 20_000)
    for (let burst = 1; burst <= 50; burst += 1) {
      peer.print(
        ...Array.from(
          { length: 20_000 },
          (_, n) => `[Server thread/INFO]: burst ${burst} line ${n + 1} of a long evening`,
        ),
      )
      await pane.shows(`burst ${burst} line 20000 of`, 60_000)
    }
    const samples: { rss: number }[] = (await readFile(report, 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    const mib = samples.map(({ rss }) => rss / 1024 / 1024)
    expect(Math.max(...mib)).toBeLessThan(145)
    // The second half needs no more than the first.
    const half = Math.floor(mib.length / 2)
    expect(Math.max(...mib.slice(half)) - Math.max(...mib.slice(0, half))).toBeLessThan(10)
  } finally {
    await close()
  }
})
