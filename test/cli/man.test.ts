import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { writeManPages } from '../../src/cli/man.ts'
import { ROOT } from '../module-graph.ts'

it('keeps the manual pages in man/ as the commands declare them', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'panel-man-fresh-'))
  try {
    const kept = join(ROOT, 'man')
    const date = /^\.Dd (.+)$/m.exec(await readFile(join(kept, 'panel.1'), 'utf8'))?.[1] ?? ''
    const pages = await writeManPages(folder, date)
    expect((await readdir(kept)).sort()).toEqual([...pages].sort())
    for (const page of pages) {
      const fresh = await readFile(join(folder, page), 'utf8')
      // When this fails: npm run build && node dist/src/cli/man.js man/
      expect(await readFile(join(kept, page), 'utf8'), page).toBe(fresh)
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
