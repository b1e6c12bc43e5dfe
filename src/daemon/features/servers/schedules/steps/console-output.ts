import type { TaskOutput } from '../../../../../shared/api/schedules.ts'
import { SCHEDULE_LIMITS } from '../../../../../shared/kernel/schedule.ts'
import { isoTime } from '../../../../../shared/kernel/time.ts'
import { fetchConsole } from '../../../../../shared/protocol/console.ts'
import type { Log } from '../../../../core/log.ts'
import type { ConsoleGateway } from '../../console/feed.ts'

/** Where a console is: the epoch of its log and its last line. */
export interface ConsoleCursor {
  readonly epoch: string
  readonly last: number
}

interface Deps {
  readonly gateway: ConsoleGateway
  readonly log: Log
}

/** What of a server's console is asked for. */
interface Of {
  readonly id: string
  readonly nodeId: string
}

/** Where the console is now; `null` where the node does not say it: then the step has no output. */
export async function consoleCursor({ gateway, log }: Deps, { id, nodeId }: Of): Promise<ConsoleCursor | null> {
  try {
    const input = { serverId: id, after: Number.MAX_SAFE_INTEGER, max: 1 }
    const { epoch, last } = await gateway.request(nodeId, fetchConsole, input)
    return { epoch, last }
  } catch (err) {
    log.debug({ err, serverId: id }, 'cannot read console position for a schedule')
    return null
  }
}

/** The lines since then, as many as are kept; `null` where nothing can be read. What a step does never fails by this. */
export async function outputSince(
  { gateway, log }: Deps,
  { id, nodeId }: Of,
  cursor: ConsoleCursor | null,
): Promise<TaskOutput | null> {
  if (cursor === null) return null
  const max = SCHEDULE_LIMITS.outputLines + 1
  try {
    const page = await gateway.request(nodeId, fetchConsole, { serverId: id, after: cursor.last, max })
    // Numbers count within an epoch: a log that has lost its end gives them anew.
    if (cursor.epoch !== '' && page.epoch !== cursor.epoch) return null
    const kept = page.lines.slice(0, SCHEDULE_LIMITS.outputLines)
    const lines = kept.map(([, ms, stream, data]) => ({ stream, data, timestamp: isoTime(ms) }))
    return { lines, truncated: page.lines.length > kept.length || page.last > (page.lines.at(-1)?.[0] ?? page.last) }
  } catch (err) {
    log.debug({ err, serverId: id }, 'cannot read console output for a schedule')
    return null
  }
}

/** Cuts an output to so many bytes of text, at whole lines. */
export function within(output: TaskOutput, bytes: number): TaskOutput {
  const lines: TaskOutput['lines'] = []
  let left = bytes
  for (const line of output.lines) {
    left -= Buffer.byteLength(line.data) + 64
    if (left < 0) return { lines, truncated: true }
    lines.push(line)
  }
  return output
}
