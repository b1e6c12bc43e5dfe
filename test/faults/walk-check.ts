import type { Server } from '../../src/shared/api/servers.ts'
import type { Sight } from './walk-look.ts'
import type { Walker } from './walk-stage.ts'
import type { Deeds } from './walk-steps.ts'
import type { WalkTrails } from './walk-trails.ts'

/** What is compared at rest. `before` is what was seen at the rest before. */
export interface Rest {
  readonly walker: Walker
  readonly api: Server
  readonly sight: Sight
  readonly deeds: Deeds
  readonly before: { readonly api: Server; readonly sight: Sight }
}

/** The difference between the kernel’s start time and that which the agent measures, on a busy machine. */
const START_MS = 5000

/** What the API says that is not so, by the operating system and the game's own book. */
export function lies({ api, sight, before }: Rest): string[] {
  const wrong: string[] = []
  const { status } = api
  const alive = sight.roots.length > 0
  if (sight.roots.length > 1) wrong.push(`${sight.roots.length} games run: ${sight.roots.join(', ')}`)
  if (!['running', 'stopped', 'crashed'].includes(status)) wrong.push(`it is ${status}`)
  if (api.nextRestartAt !== null) wrong.push(`a start is due at ${api.nextRestartAt}`)
  if (alive !== (status === 'running')) wrong.push(`it is ${status}, and its processes are [${sight.roots.join(', ')}]`)
  if (api.powerState !== (alive ? 'running' : 'offline')) wrong.push(`its power is ${api.powerState}`)
  if (api.pid !== (sight.roots[0] ?? null)) wrong.push(`its pid is ${api.pid}, by the kernel ${sight.roots[0]}`)
  if (status === 'crashed' && !/\w{3}/.test(api.lastExitReason ?? '')) wrong.push('it has crashed without a reason')
  if (api.lastKnownStatus !== null) wrong.push(`its last known status is ${api.lastKnownStatus}`)
  if (status === 'running' && api.desired !== 'running') wrong.push('it runs and is wanted to be stopped')
  if (status === 'stopped' && api.desired !== 'stopped') wrong.push('it is stopped and is wanted to run')
  wrong.push(...uptimeLies(api, sight), ...exitLies(api, sight, before))
  return wrong
}

function uptimeLies(api: Server, { startedAt, roots, book }: Sight): string[] {
  if (startedAt === null) return api.startedAt === null ? [] : [`it is down and up since ${api.startedAt}`]
  const wrong: string[] = []
  const off = Date.parse(api.startedAt ?? '') - startedAt
  if (!(Math.abs(off) < START_MS)) wrong.push(`it is up since ${api.startedAt}, by the kernel ${off} ms earlier`)
  if (book.at(-1)?.pid !== roots[0]) wrong.push(`its book names ${book.at(-1)?.pid}, the kernel ${roots[0]}`)
  return wrong
}

/** The last end of a run as the book knows it: with its code, or killed. */
function exitLies(api: Server, { book }: Sight, before: Rest['before']): string[] {
  const ended = api.status === 'running' ? book.slice(0, -1) : book
  const last = ended.at(-1)
  if (last === undefined) return []
  const said = `${api.lastExitCode}/${api.lastExitSignal}`
  if (said === (last.end === null ? 'null/SIGKILL' : `${last.end}/null`)) return []
  const unchanged = `${before.api.lastExitCode}/${before.api.lastExitSignal}` === said
  // A signal may come before the game has written its first line, or between its last one and its exit.
  if (!unchanged && (said === 'null/SIGTERM' || said === 'null/SIGKILL')) return []
  return [`it ended with ${said}, by its book with ${last.end}`]
}

/** What was ordered and is not so, where nobody has interfered. */
export function disobedience({ api, sight, deeds, before }: Rest, trails: WalkTrails): string[] {
  const wrong: string[] = []
  const last = deeds.orders.toSorted((a, b) => a.generation - b.generation).at(-1)
  const status = api.status as string
  if (last === undefined && deeds.lost === 0) wrong.push(...unorderedLies({ api, sight, deeds, before }))
  if (last === undefined || deeds.lost > 0 || deeds.disturbed) return wrong
  const end = trails.endsOf(api.id).find(({ commandId }) => commandId === last.commandId)
  if (end?.['ok'] !== true) wrong.push(`the last order has failed: ${JSON.stringify(end)}`)
  if (status !== last.desired) wrong.push(`the last order wants it ${last.desired}, and it is ${status}`)
  if (last.forgives && end?.['noop'] !== true && api.crashCount !== 0)
    wrong.push(`${api.crashCount} crashes count after an order`)
  return wrong
}

/** Without an order only ends by themselves have happened, and each of them counts. */
function unorderedLies({ api, sight, deeds, before }: Omit<Rest, 'walker'>): string[] {
  if (deeds.typedStop) return []
  const { restartPolicy } = api
  const had = before.sight.book.length - (before.api.status === 'running' ? 1 : 0)
  const ends = sight.book.slice(had, api.status === 'running' ? -1 : undefined)
  let count = before.api.crashCount
  let status = before.api.status
  for (const { end } of ends) {
    if (end === 0) {
      // A clean end is no crash. What starts again after it keeps those that it has.
      count = restartPolicy === 'always' ? count : 0
      status = restartPolicy === 'always' ? 'running' : 'stopped'
    } else {
      count += 1
      status = restartPolicy === 'never' || count >= api.maxCrashCount ? 'crashed' : 'running'
    }
  }
  const wrong: string[] = []
  if (api.crashCount !== count) wrong.push(`${api.crashCount} crashes count, there were ${count}`)
  if (api.status !== status) wrong.push(`it is ${api.status} after ${ends.length} ends, and should be ${status}`)
  return wrong
}

/** What event log and audit log say of the orders of a server, against each other and against what was accepted. */
export function trailLies(trails: WalkTrails, api: Server, all: readonly Deeds[]): string[] {
  const wrong: string[] = []
  const ends = trails.endsOf(api.id)
  const rows = trails.auditOf(api.id)
  const ordered = rows.flatMap(({ details }) => (details?.['commandId'] === undefined ? [] : [details]))
  const ids = ordered.map((details) => String(details['commandId']))
  const reported = ends.filter(({ op }) => op !== 'apply').map(({ commandId }) => String(commandId))
  wrong.push(...repeated(ids).map((id) => `the audit log has the order ${id} twice`))
  wrong.push(...repeated(ends.map(({ commandId }) => String(commandId))).map((id) => `the end of ${id} was told twice`))
  for (const id of ids) if (!reported.includes(id)) wrong.push(`the end of the order ${id} was never told`)
  // The first order of all is part of the creation.
  const strange = reported.filter((id) => !ids.includes(id))
  if (strange.length !== 1) wrong.push(`ends were told of orders that nobody gave: ${strange.slice(1).join(', ')}`)
  const accepted = all.flatMap(({ orders }) => orders.map(({ commandId }) => commandId))
  for (const id of accepted) if (!ids.includes(id)) wrong.push(`the accepted order ${id} is not in the audit log`)
  const lost = all.reduce((sum, deeds) => sum + deeds.lost, 0)
  if (ids.length !== accepted.length + lost) {
    wrong.push(`${ids.length} orders in the audit log, ${accepted.length} were accepted and ${lost} lost their answer`)
  }
  const edits = rows.filter(({ action }) => action === 'server.update').length
  const applied = ends.filter(({ op }) => op === 'apply').length
  if (edits !== applied) wrong.push(`${edits} edits in the audit log, the ends of ${applied} were told`)
  const generations = [...ordered.map((details) => Number(details['generation'])), api.generation]
  const newest = Math.max(...generations)
  if (api.generation !== newest || 1 + ids.length + edits !== newest) {
    wrong.push(`it is of generation ${api.generation} after ${ids.length} orders and ${edits} edits`)
  }
  return [...wrong, ...stateChainLies(trails, api)]
}

/** Each change that was told begins where the one before has ended, and the last one is what the API says. */
function stateChainLies(trails: WalkTrails, api: Server): string[] {
  const states = trails.statesOf(api.id)
  const wrong: string[] = []
  for (const [i, { previousState }] of states.entries()) {
    const before = states[i - 1]
    if (before !== undefined && before['state'] !== previousState) {
      wrong.push(`a change from ${previousState} was told of a server that was ${before['state']} (change ${i})`)
    }
  }
  const last = states.at(-1)
  const { status, desired, crashCount } = api
  if (last?.['state'] !== status || last['desired'] !== desired || last['crashCount'] !== crashCount) {
    wrong.push(`the events end with ${JSON.stringify(last)}`)
  }
  return wrong
}

/** Lines that were typed: none came twice, none is missing where its game lived on, and the audit log has each. */
export function typingLies({ api, sight, deeds, before }: Rest, trails: WalkTrails): string[] {
  const wrong: string[] = []
  const read = sight.book.flatMap(({ lines }) => lines)
  const audited = trails
    .auditOf(api.id)
    .filter(({ action, details }) => action === 'server.console_command' && details?.['outcome'] === undefined)
    .map(({ details }) => String(details?.['command']))
  const undisturbed = api.pid !== null && api.pid === before.api.pid
  for (const line of [...deeds.typed, ...deeds.perhapsTyped]) {
    const [times, rows] = [read, audited].map((texts) => texts.filter((text) => text === line).length)
    const sure = deeds.typed.includes(line)
    if ((times ?? 0) > 1 || (sure && undisturbed && times !== 1)) wrong.push(`"${line}" was read ${times} times`)
    if (rows !== 1 && (sure || (times ?? 0) > 0)) wrong.push(`"${line}" has ${rows} rows in the audit log`)
  }
  return wrong
}

function repeated(values: readonly string[]): string[] {
  return values.filter((value, i) => values.indexOf(value) !== i)
}
