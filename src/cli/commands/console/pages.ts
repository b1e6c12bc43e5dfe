import { getLogs } from '../../../shared/api/console.ts'
import type { Run } from '../../kit/run.ts'
import { fromLog, type Line } from './line.ts'

/** The most lines that one page has, and that a stream begins with. */
export const PAGE = 2000

/** A place in front of the first line that a log will ever have: a stream that resumes there leaves out none. */
const BEFORE_ALL = '0-0'

/**
 * Lines after a place or a time, page by page, up to now or `until`. Reports lines that are gone on stderr. Returns the place up to
 * which it has read.
 */
export async function* readLogPages(
  run: Run,
  wanted: {
    readonly serverId: string
    readonly after: string | undefined
    readonly until?: string | undefined
    readonly notices: boolean
  },
): AsyncGenerator<Line, string | undefined> {
  const client = await run.client()
  let after = wanted.after
  let expected = seqOf(after)
  let place: string | undefined
  for (;;) {
    const query = { lines: PAGE, ...(after === undefined ? {} : { after }) }
    const page = await client.call(getLogs, { params: { serverId: wanted.serverId }, query })
    for (const log of page.logs) {
      if (wanted.until !== undefined && log.timestamp >= wanted.until) return place
      if (wanted.notices && expected !== undefined && log.seq > expected + 1) {
        run.terminal.say(`${log.seq - expected - 1} lines are missing (${expected + 1} to ${log.seq - 1})`)
      }
      expected = log.seq
      place = log.id
      yield fromLog(log)
    }
    const last = page.logs.at(-1)
    // What comes after this answer is newer than its last line, though no line of it was wanted.
    if (last === undefined) return place ?? (page.epoch === null ? BEFORE_ALL : `${page.epoch}-${page.lastSeq}`)
    if (last.seq >= page.lastSeq) return last.id
    after = last.id
  }
}

/** The last `count` lines (before a place or time), oldest first. */
export async function readLastLines(
  run: Run,
  wanted: { readonly serverId: string; readonly count: number; readonly before: string | undefined },
): Promise<readonly Line[]> {
  const client = await run.client()
  const pages: Line[][] = []
  let missing = wanted.count
  let before = wanted.before
  while (missing > 0) {
    const query = { lines: Math.min(missing, PAGE), ...(before === undefined ? {} : { before }) }
    const page = await client.call(getLogs, { params: { serverId: wanted.serverId }, query })
    const [first] = page.logs
    if (first === undefined) break
    pages.push(page.logs.map(fromLog))
    missing -= page.logs.length
    before = first.id
    if (first.seq <= page.firstSeq) break
  }
  return pages.reverse().flat()
}

function seqOf(place: string | undefined): number | undefined {
  const match = /^[0-9a-z]{1,40}-(\d{1,15})$/.exec(place ?? '')
  return match?.[1] === undefined ? undefined : Number(match[1])
}
