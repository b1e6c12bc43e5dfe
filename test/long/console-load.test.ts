import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { type Attached, attach } from '../cli/tui/attached.ts'
import { DIST } from '../run-panel.ts'

let open: Attached | undefined

afterEach(async () => {
  await open?.close()
  open = undefined
})

// biome-ignore lint/suspicious/noControlCharactersInRegex: what clears a screen
const CLEARS = /\u001B\[[23]?J|\u001Bc/

interface Report {
  readonly rss: number
  readonly cpu: { readonly user: number; readonly system: number }
}

describe('the console screen under load', { timeout: 120_000 }, () => {
  test.each([
    [80, 24],
    [200, 60],
  ])('takes 1,000 lines a second for 10 s at %dx%d: every line kept, keys answered', async (columns, rows) => {
    open = await attach({ dist: DIST, columns, rows, start: false })
    const { pane, peer, folder } = open
    const report = join(folder, 'report')
    await pane.text(open.command({ report }))
    await pane.keys('Enter')
    await pane.shows('LIVE', 20_000)
    const recording = join(folder, 'recording')
    await pane.record(recording)
    const printing = printFor(peer, 10_000)
    const waits: number[] = []
    for (let n = 0; n < 8; n += 1) {
      const typed = performance.now()
      await pane.text(`k${n}`)
      await pane.shows(`> ${Array.from({ length: n + 1 }, (_, k) => `k${k}`).join('')}`)
      waits.push(performance.now() - typed)
      await new Promise((done) => setTimeout(done, 500))
    }
    const printed = await printing
    await pane.shows(`number ${printed} `)
    await pane.keys('C-u')
    await pane.toLog()
    await pane.keys('g')
    await pane.shows('number 1 ')
    const sent = await readFile(recording, 'utf8')
    expect(sent).not.toMatch(CLEARS)
    expect(Buffer.byteLength(sent) / 10).toBeLessThan(300 * 1024)
    const usage = usageOf(await readFile(report, 'utf8'))
    // A key's way here holds two starts of tmux beside the screen itself; medians keep a busy machine out.
    expect(waits.sort((a, b) => a - b)[4]).toBeLessThan(150)
    expect(usage.rssMiB).toBeLessThan(140)
    // Alone on a machine it takes a fifth to a quarter; twice that is a defect on any.
    expect(usage.core).toBeLessThan(0.5)
  })

  test('takes bursts of 20,000 lines and keeps the newest', async () => {
    open = await attach({ dist: DIST, columns: 80, rows: 24 })
    const { pane, peer } = open
    for (let burst = 1; burst <= 3; burst += 1) {
      peer.print(...Array.from({ length: 20_000 }, (_, n) => `burst ${burst} line ${n + 1} of it`))
      await pane.shows(`burst ${burst} line 20000 of it`, 20_000)
    }
    await pane.toLog()
    await pane.text('/burst 3 line 100 of')
    await pane.keys('Enter')
    await pane.shows('match 1/1')
    await pane.shows('burst 3 line 100 of it')
  })
})

/** Prints 1,000 lines a second in steps of 20 ms; how many there were. */
async function printFor(peer: Attached['peer'], ms: number): Promise<number> {
  const start = performance.now()
  let printed = 0
  for (let elapsed = 0; elapsed < ms; elapsed = performance.now() - start) {
    const wanted = Math.floor(elapsed)
    const texts = []
    while (printed < wanted) {
      printed += 1
      texts.push(`[Server thread/INFO]: number ${printed} of a long and busy evening`)
    }
    peer.print(...texts)
    await new Promise((done) => setTimeout(done, 20))
  }
  return printed
}

function usageOf(report: string): { rssMiB: number; core: number } {
  const samples: Report[] = report
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  const used = ({ cpu }: Report): number => cpu.user + cpu.system
  // Without the start of the program: from the fifth sample, a quarter of a second apart.
  const [first, last] = [samples[4], samples.at(-1)]
  if (first === undefined || last === undefined) throw new Error('too few samples')
  const seconds = (samples.length - 5) * 0.25
  return {
    rssMiB: Math.round(Math.max(...samples.map(({ rss }) => rss)) / 1024 / 1024),
    core: Math.round((100 * (used(last) - used(first))) / 1e6 / seconds) / 100,
  }
}
