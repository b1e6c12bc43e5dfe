/** An UPDATE of one table by what its SQL says: which columns it may change, and where that is known, of which rows. */
export interface NarrowUpdate {
  readonly table: string
  /** In lower case, as all names here. */
  readonly columns: readonly string[]
  /** `undefined`: of any rows. */
  readonly rows: GivenRows | undefined
}

/** Which parameter names the rows, and how: by an id, by JSON of ids, or by JSON of lists that begin with an id. */
export interface GivenRows {
  readonly parameter: number
  readonly as: 'id' | 'ids' | 'firsts'
}

/** Texts, comments, odd names, several statements, numbered and named parameters, a FROM that is no clause: of such SQL nothing is said. */
const UNREAD = /['"`;[\]]|--|\/\*|\?\d|[:@$]\w|[^\s -~]|distinct/
const QUOTED = /"(\w+)"/g
const UPDATE = /^update (\w+) set /
const COLUMN = /^ ?(\w+) = /
const CLAUSES = / (from|where|returning|order by|limit) /g
const OR = / or /
const GIVEN = /^json_each\(\?\) as (\w+)$/

/** Reads an UPDATE as this program writes it; `undefined` for any other statement, of which nothing may be concluded. */
export function narrowUpdate(sql: string): NarrowUpdate | undefined {
  const plain = sql.toLowerCase().replace(QUOTED, '$1').replace(/\s+/g, ' ').trim()
  if (UNREAD.test(plain)) return undefined
  const begin = UPDATE.exec(plain)
  const flat = withoutBrackets(plain)
  if (begin === null || flat === undefined) return undefined
  const [, table = ''] = begin
  const { set, parts } = clausesOf(plain, { flat, from: begin[0].length })
  const columns = set.map((text) => COLUMN.exec(text)?.[1])
  if (!columns.every((column) => column !== undefined) || columns.includes('id')) return undefined
  return { table, columns, rows: rowsOf(table, parts) }
}

/** The ids of the rows that are named by these parameters; `undefined` when that is not known. */
export function idsGiven({ parameter, as }: GivenRows, parameters: readonly unknown[]): readonly string[] | undefined {
  const given = parameters[parameter]
  if (typeof given !== 'string') return undefined
  if (as === 'id') return [given]
  const list = parsed(given)
  if (!Array.isArray(list)) return undefined
  const ids: readonly unknown[] = as === 'ids' ? list : list.map((row: unknown) => (Array.isArray(row) ? row[0] : row))
  return ids.every((id) => typeof id === 'string') ? ids : undefined
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // SQLite may read it: it takes more than JSON
  }
}

/** A clause of a statement, and how many parameters stand before it. */
interface Clause {
  readonly text: string
  readonly flat: string
  readonly places: number
}

type Clauses = ReadonlyMap<string, Clause>

/** What is set, one text for each column, and the other clauses by their words. */
function clausesOf(
  plain: string,
  { flat, from }: { flat: string; from: number },
): { readonly set: readonly string[]; readonly parts: Clauses } {
  const words = [...flat.matchAll(CLAUSES)].filter(({ index }) => index >= from - 1)
  const parts = words.map(({ 0: found, 1: word = '', index }, i): readonly [string, Clause] => {
    const [begin, end] = [index + found.length, words[i + 1]?.index ?? plain.length]
    const places = plain.slice(0, begin).split('?').length - 1
    return [word, { text: plain.slice(begin, end), flat: flat.slice(begin, end), places }]
  })
  const set = flat.slice(from, words[0]?.index).split(',')
  return { set, parts: new Map(parts) }
}

function rowsOf(table: string, clauses: Clauses): GivenRows | undefined {
  const [from, where] = [clauses.get('from'), clauses.get('where')]
  if (where === undefined || OR.test(where.flat)) return undefined
  const condition = where.text.startsWith(`${table}.`) ? where.text.slice(table.length + 1) : where.text
  const is = (text: string): boolean => condition === text || condition.startsWith(`${text} and `)
  if (from !== undefined) {
    const name = GIVEN.exec(from.text)?.[1]
    return is(`id = ${name}.value ->> 0`) ? { parameter: from.places, as: 'firsts' } : undefined
  }
  if (is('id = ?')) return { parameter: where.places, as: 'id' }
  return is('id in (select value from json_each(?))') ? { parameter: where.places, as: 'ids' } : undefined
}

/** The text with blanks for what stands in brackets; `undefined` where they do not fit together. */
function withoutBrackets(text: string): string | undefined {
  let depth = 0
  let flat = ''
  for (const char of text) {
    if (char === ')') depth -= 1
    if (depth < 0) return undefined
    flat += depth > 0 ? ' ' : char
    if (char === '(') depth += 1
  }
  return depth === 0 ? flat : undefined
}
