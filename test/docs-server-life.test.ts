import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ExitCause } from '../src/shared/kernel/server-life.ts'
import { ROOT } from './module-graph.ts'

const page = readFileSync(join(ROOT, 'docs/server-life.md'), 'utf8')
const rows = page.split('\n').filter((line) => line.startsWith('| ') && line.includes('`test/'))

describe('docs/server-life.md', () => {
  it('names for each arrow tests that exist, by file and title', () => {
    expect(rows.length).toBeGreaterThan(15)
    for (const row of rows) {
      const proofs = [...row.matchAll(/`(test\/[^`]+\.test\.ts)`: ((?:"[^"]+"(?:, )?)+)/g)]
      expect(proofs, row).not.toEqual([])
      for (const [, file = '', titles = ''] of proofs) {
        const source = readFileSync(join(ROOT, file), 'utf8')
        for (const [, title = ''] of titles.matchAll(/"([^"]+)"/g)) {
          const isThere = ["'", '`', '"'].some((quote) => source.includes(`(${quote}${title}${quote},`))
          expect(isThere, `${file} has no test "${title}"`).toBe(true)
        }
      }
    }
  })

  it('explains every cause of an end, and no other', () => {
    const table = page.slice(page.indexOf('| Cause |'), page.indexOf('| an end | its cause |'))
    const named = table.split('\n').flatMap((line) => [...(line.split('|')[1] ?? '').matchAll(/`([a-z-]+)`/g)])
    expect(named.map(([, cause]) => cause).sort()).toEqual([...ExitCause.options].sort())
  })
})
