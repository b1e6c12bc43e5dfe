import { ServerId } from '../../../../../shared/kernel/ids.ts'
import type { TaskStep } from '../../../../../shared/kernel/schedule.ts'
import type { Log } from '../../../../core/log.ts'
import { type TypeDeps, typeCommand } from '../../console/operations.ts'
import { findServerRow } from '../../servers/rows.ts'
import { findRun, runStepsOf, updateRunStep } from '../rows.ts'
import { consoleCursor, outputSince } from './console-output.ts'
import { failureOf, type Outcome, type RunJob, refused } from './outcome.ts'

/** What a command step types with. */
export type CommandDeps = TypeDeps & { readonly log: Log }

/** So long after a line what the console says counts as its output. */
const LISTEN_MS = 1000

const UNKNOWN = 'The daemon was stopped while the line was typed; it may have reached the game, and is not typed twice'

/**
 * Types a line once. That it is about to be typed is written down before: where the daemon ends in between, nobody knows
 * whether the game has it, and the step says so.
 */
export async function typeLine(
  deps: CommandDeps,
  { job, signal }: { readonly job: RunJob; readonly signal: AbortSignal },
  { payload: { command } }: Extract<TaskStep, { action: 'command' }>,
): Promise<Outcome> {
  const { runId, serverId } = job.input
  const { number } = job.step
  const server = await findServerRow(deps.db.read, serverId)
  if (server === undefined) return refused('SERVER_NOT_FOUND', 'The server is gone')
  if (await isTyped(deps, runId, number)) return refused('INTERRUPTED', UNKNOWN)
  const cursor = deps.isOnline(server.nodeId) ? await consoleCursor(deps, server) : null
  await deps.db.write((tx) => updateRunStep(tx, runId, number, { typed: true }))
  const input = { params: { serverId: ServerId.parse(serverId) }, query: undefined, body: { command } }
  try {
    await typeCommand(deps, job.principal, input)
  } catch (error) {
    return failureOf(error)
  }
  await deps.clock.sleep(LISTEN_MS, signal)
  return { ok: true, output: await outputSince(deps, server, cursor) }
}

async function isTyped({ db }: CommandDeps, runId: string, number: number): Promise<boolean> {
  const run = await findRun(db.read, runId)
  return run !== undefined && runStepsOf(run).some((step) => step.number === number && step.typed)
}
