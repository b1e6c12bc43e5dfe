import type { ConsoleLine, FetchResult, LineStream } from '../../../../shared/protocol/console.ts'
import { fetchConsole } from '../../../../shared/protocol/console.ts'
import { agentCodeOf } from '../../../gateway/agent-errors.ts'
import type { ConsoleGateway } from './feed.ts'
import { parseLineId } from './frames.ts'

/** What is asked of a log: positions are line ids or instants. */
export interface LogQuery {
  readonly lines: number
  readonly stream?: LineStream | undefined
  readonly before?: string | undefined
  readonly after?: string | undefined
}

/** A page of a log, oldest first, with what the whole log holds. */
export interface LogPage {
  /** `null`: there is no log yet. */
  readonly epoch: string | null
  readonly first: number
  readonly last: number
  readonly lines: readonly ConsoleLine[]
}

/** Where a page lies: lines after `after` and before `before`, from the end that is given. */
interface Bounds {
  readonly after: number | undefined
  readonly before: number
}

/** Lines that one request brings at most (the agent cuts a page at 512 KiB as well). */
const CHUNK = 2000
/** Requests for one page: a filter that matches little must not read a whole log for one answer. */
const MOST_CHUNKS = 32

type Fetch = (range: { after?: number; before?: number }, max: number) => Promise<FetchResult>

/** Reads a page from the node's log. Rejects as `gateway.request` does; a server that the node does not know has no log. */
export async function readLogPage(
  gateway: ConsoleGateway,
  server: { readonly id: string; readonly nodeId: string },
  query: LogQuery,
): Promise<LogPage> {
  const fetch: Fetch = (range, max) =>
    gateway.request(server.nodeId, fetchConsole, { serverId: server.id, max, ...range })
  try {
    const { epoch, first, last } = await fetch({ after: Number.MAX_SAFE_INTEGER }, 1)
    const log = { epoch: epoch === '' ? null : epoch, first, last }
    const after = query.after === undefined ? undefined : await afterOf(fetch, log, query.after)
    const before = query.before === undefined ? last + 1 : await beforeOf(fetch, log, query.before)
    return { ...log, lines: await collect(fetch, { after, before }, query) }
  } catch (error) {
    if (agentCodeOf(error) === 'UNKNOWN_SERVER') return { epoch: null, first: 1, last: 0, lines: [] }
    throw error
  }
}

/** The same from lines that are held here. */
export function pageOfHeld(
  held: { readonly epoch: string; readonly lines: readonly ConsoleLine[] },
  query: LogQuery,
): LogPage {
  const first = held.lines[0]?.[0] ?? 1
  const last = held.lines.at(-1)?.[0] ?? first - 1
  const isAfter = (line: ConsoleLine): boolean => {
    if (query.after === undefined) return true
    const id = parseLineId(query.after)
    if (id === undefined) return line[1] > Date.parse(query.after)
    return id.epoch !== held.epoch || line[0] > id.seq
  }
  const isBefore = (line: ConsoleLine): boolean => {
    if (query.before === undefined) return true
    const id = parseLineId(query.before)
    if (id === undefined) return line[1] < Date.parse(query.before)
    return id.epoch === held.epoch && line[0] < id.seq
  }
  const fitting = held.lines.filter((line) => isWanted(line, query) && isAfter(line) && isBefore(line))
  const lines = query.after === undefined ? fitting.slice(-query.lines) : fitting.slice(0, query.lines)
  return { epoch: held.epoch, first, last, lines }
}

async function collect(fetch: Fetch, bounds: Bounds, query: LogQuery): Promise<ConsoleLine[]> {
  const { after, before } = bounds
  return after === undefined
    ? await collectBackwards(fetch, before, query)
    : await collectForwards(fetch, after, before, query)
}

async function collectForwards(fetch: Fetch, after: number, before: number, query: LogQuery): Promise<ConsoleLine[]> {
  const found: ConsoleLine[] = []
  let cursor = after
  for (let i = 0; i < MOST_CHUNKS && found.length < query.lines && cursor + 1 < before; i++) {
    const { lines } = await fetch({ after: cursor }, chunkFor(query, found.length))
    const last = lines.at(-1)
    if (last === undefined) break
    found.push(...lines.filter((line) => line[0] < before && isWanted(line, query)))
    cursor = last[0]
  }
  return found.slice(0, query.lines)
}

async function collectBackwards(fetch: Fetch, before: number, query: LogQuery): Promise<ConsoleLine[]> {
  let found: ConsoleLine[] = []
  let cursor = before
  for (let i = 0; i < MOST_CHUNKS && found.length < query.lines && cursor > 1; i++) {
    const { lines, first } = await fetch({ before: cursor }, chunkFor(query, found.length))
    const oldest = lines[0]
    if (oldest === undefined) break
    found = [...lines.filter((line) => isWanted(line, query)), ...found]
    cursor = oldest[0]
    if (cursor <= first) break
  }
  return found.slice(-query.lines)
}

function chunkFor(query: LogQuery, found: number): number {
  return query.stream === undefined ? Math.min(CHUNK, query.lines - found) : CHUNK
}

function isWanted(line: ConsoleLine, query: LogQuery): boolean {
  return query.stream === undefined || line[2] === query.stream
}

interface LogFacts {
  readonly epoch: string | null
  readonly first: number
  readonly last: number
}

/** The number after which the page begins. A line of another epoch is older than all lines of this log. */
async function afterOf(fetch: Fetch, log: LogFacts, position: string): Promise<number> {
  const id = parseLineId(position)
  if (id === undefined) return (await firstSince(fetch, log, Date.parse(position) + 1)) - 1
  return id.epoch === log.epoch ? id.seq : log.first - 1
}

async function beforeOf(fetch: Fetch, log: LogFacts, position: string): Promise<number> {
  const id = parseLineId(position)
  if (id === undefined) return await firstSince(fetch, log, Date.parse(position))
  return id.epoch === log.epoch ? Math.min(id.seq, log.last + 1) : log.first
}

/** The number of the first line that is not older than the instant, by halving; one behind the last when all are older. */
async function firstSince(fetch: Fetch, log: LogFacts, ms: number): Promise<number> {
  let low = log.first
  let high = log.last + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const line = (await fetch({ after: middle - 1 }, 1)).lines[0]
    if (line === undefined || line[1] >= ms) high = middle
    else low = Math.max(middle, line[0]) + 1
  }
  return low
}
