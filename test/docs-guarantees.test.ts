import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'rolldown/parseAst'
import { describe, expect, it } from 'vitest'
import { ROOT } from './module-graph.ts'

const page = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8')
const rows = page.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| Promise'))

describe('docs/guarantees.md', () => {
  it('has the columns Promise, Proof and Limits in every table', () => {
    const heads = page.split('\n').filter((line) => line.startsWith('| Promise'))
    expect(new Set(heads)).toEqual(new Set(['| Promise | Proof | Limits |']))
    expect(rows.length).toBeGreaterThan(20)
    for (const row of rows) expect(row.split(/(?<!\\)\|/), row).toHaveLength(5)
  })

  it('names for each promise tests that exist, by file and title', () => {
    for (const row of rows) {
      const [, , proof = ''] = row.split(/(?<!\\)\|/)
      const proofs = proof.trim().split(/;\s+(?=`)/)
      for (const one of proofs) {
        const [, file = '', titles = ''] = /^`(test\/[^`]+\.test\.tsx?)`: ("[^"]+"(?:, "[^"]+")*)$/.exec(one) ?? []
        expect(file, `no proof of the form \`test/….test.ts\`: "title": ${row}`).not.toBe('')
        expect(existsSync(join(ROOT, file)), file).toBe(true)
        const wanted = [...titles.matchAll(/"([^"]+)"/g)].map(([, title = '']) => title)
        const found = testTitles(readFileSync(join(ROOT, file), 'utf8'))
        const missing = wanted.filter((title) => !found.has(title))
        expect(missing, `${file} has no test of this title`).toEqual([])
      }
    }
  })
})

describe('the titles of a test file', () => {
  it('are those of its tests, not of its groups, comments or other strings', () => {
    const source = `
      // it('a comment')
      describe('a group', () => {
        it('plain', () => { expect('a string').toBe('a string') })
        test.skipIf(x)('guarded', () => {})
        it.each([1])('each %s', { timeout: 1 }, () => {})
        it(\`of \${N}\`, () => {})
        it.skip('switched off', () => {})
        it.todo('to be written')
      })
      describe.each([1])('groups %s', () => {})`
    expect([...testTitles(source)]).toEqual(['plain', 'guarded', 'each %s', `of \${N}`])
  })
})

interface Node {
  readonly start: number
  readonly end: number
}

/** The titles of the tests in a file that can run, as the file writes them. */
function testTitles(source: string): Set<string> {
  const titles = new Set<string>()
  const textOf = ({ start, end }: Node): string => source.slice(start, end)
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return
    const title = isCall(value) && isTest(textOf(value.callee)) ? value.arguments[0] : undefined
    if (title !== undefined && /^['"`]/.test(textOf(title))) titles.add(textOf(title).slice(1, -1))
    Object.values(value).forEach(walk)
  }
  walk(parseAst(source, { lang: 'ts' }))
  return titles
}

/** `it`, `test`, and what they are called with before the title: `it.each(…)`, `test.skipIf(…)`. */
function isTest(callee: string): boolean {
  return (
    /^(it|test)$/.test(callee) || /^(it|test)(\.concurrent|\.sequential)*\.(each|skipIf|runIf|for)\(.*\)$/s.test(callee)
  )
}

function isCall(value: object): value is Node & { readonly callee: Node; readonly arguments: readonly Node[] } {
  return 'type' in value && value.type === 'CallExpression'
}
