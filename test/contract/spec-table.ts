import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** One row of the specification's tables of endpoints. */
export interface SpecRow {
  readonly method: string
  /** With `{names}`, as the specification writes it. */
  readonly path: string
  /** What its guard column says; '' where the table has none. */
  readonly rule: string
  readonly codes: readonly string[]
}

/** The rows of spec.md §4 and the codes of §7 that this repository keeps, so that its tests need no other file. */
export interface SpecTable {
  readonly rows: readonly SpecRow[]
  readonly codes: readonly string[]
}

/** The kept table also has the status that api.md §2.4 gives to each code. */
export interface KeptTable extends SpecTable {
  readonly statuses: ReadonlyMap<string, number>
}

const FIXTURE = join(import.meta.dirname, 'spec-rows.txt')

/** The kept table. */
export function keptTable(): KeptTable {
  const lines = readFileSync(FIXTURE, 'utf8').split('\n')
  const rows = lines.flatMap((line) => {
    const [head = '', rule = '', codes = ''] = line.split('\t')
    const [method, path] = head.split(' ')
    return method === undefined || path === undefined ? [] : [{ method, path, rule, codes: codesIn(codes) }]
  })
  const coded = lines.flatMap((line) => {
    const [, code, status] = /^([A-Z_]+)\t(\d{3})$/.exec(line) ?? []
    return code === undefined ? [] : [[code, Number(status)] as const]
  })
  return { rows, codes: coded.map(([code]) => code), statuses: new Map(coded) }
}

/** The table of a specification's text: a row begins with a method and a path, a code of §7 stands in a first column. */
export function tableOf(spec: string): SpecTable {
  const rows = [...spec.matchAll(/^\| (GET|POST|PUT|PATCH|DELETE) \| (\S+) \|(.*)\|$/gm)].map(
    ([, method = '', path = '', rest = '']) => {
      const cells = rest.split(' | ').map((cell) => cell.trim())
      const codes = codesIn(cells.at(-1) ?? '')
      const rule = cells.length > 1 || codes.length === 0 ? (cells[0] ?? '') : ''
      return { method, path, rule, codes }
    },
  )
  const errors = spec.slice(spec.indexOf('## 7. Errors'), spec.indexOf('## 8. Limits'))
  return { rows, codes: [...errors.matchAll(/^\| ([A-Z_]+) \|/gm)].map(([, code = '']) => code) }
}

/** The text of the fixture: what to write into spec-rows.txt when the specification has changed. */
export function fixtureOf({ rows, codes }: SpecTable, statuses: ReadonlyMap<string, number>): string {
  const lines = rows.map((row) => `${row.method} ${row.path}\t${row.rule}\t${row.codes.join(' ')}`)
  return [...lines, '', ...codes.map((code) => `${code}\t${statuses.get(code)}`), ''].join('\n')
}

/** The statuses that the pages of the design give to codes: `NAME / OTHER | 404/409 | …`, shared endings as `_IN_USE`. */
export function statusesOf(design: string): ReadonlyMap<string, number> {
  const catalogue = design.slice(design.indexOf('### 2.4 Code catalogue'), design.indexOf('## 3. Pagination'))
  const found = new Map<string, number>()
  for (const [, names = '', picks = ''] of catalogue.matchAll(/^\| ([A-Z0-9_ /]+) \| ([^|]+) \|/gm)) {
    const statuses = [...picks.matchAll(/\d{3}/g)].map(([status]) => Number(status))
    const all = names.split(' / ').map((name) => name.trim())
    for (const [place, name] of all.entries()) {
      const first = all[0] ?? ''
      const full = name.startsWith('_') ? stem(first) + name : name
      found.set(full, statuses[place] ?? statuses[0] ?? 0)
    }
  }
  return found
}

/** `ADMIN_IP_POOL_NOT_FOUND` → `ADMIN_IP_POOL`. */
function stem(code: string): string {
  return code.replace(/_NOT_FOUND$/, '')
}

function codesIn(text: string): string[] {
  return [...text.matchAll(/\b[A-Z]+(?:_[A-Z]+)+\b/g)].map(([code]) => code)
}
