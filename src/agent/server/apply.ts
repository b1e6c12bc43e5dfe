import type { ResultOf } from '../../shared/protocol/define.ts'
import type { applySpec } from '../../shared/protocol/server.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import type { GameServer } from './server.ts'

/** What of a specification is in force without a start: what the agent itself goes by. */
const LIVE = ['generation', 'name', 'limits', 'restart', 'suspended', 'boot', 'install', 'eula', 'templateId'] as const

/**
 * Puts as much of a new specification in force for the living run as can be, and says whether the rest waits for the next start. `before`
 * is what counted until now; without a living run nothing waits for anything.
 */
export async function applyNow(server: GameServer, before: ServerSpec): Promise<ResultOf<typeof applySpec>> {
  const { spec, game } = server
  const mountProblem = await newMountProblem(server, before)
  if (mountProblem !== undefined) return { appliesAt: 'next-start', reason: mountProblem.slice(0, 500) }
  if (game === undefined) return undefined
  const { memoryMb, swapMb, cpuCores, pids } = spec.limits
  const refused = await game.run.resize({ memoryMb, swapMb, cpuCores, pids }).catch((error: unknown) => {
    if (error instanceof AgentFailure && error.code === 'NOT_RUNNING') return null // it has ended in this moment
    throw error
  })
  const isSame = JSON.stringify(sizesOf(before)) === JSON.stringify(sizesOf(spec))
  if (refused !== null && !isSame) {
    await server.note(`${refused}; the new limits are in force at the next start`)
    return { appliesAt: 'next-start', reason: refused.slice(0, 500) }
  }
  if (JSON.stringify(waitingOf(before)) === JSON.stringify(waitingOf(spec))) return { appliesAt: 'now', reason: null }
  return { appliesAt: 'next-start', reason: 'What runs keeps its startup line, variables and rules until it ends' }
}

/** Why this node does not give the server the mounts that it has now, said when they are asked for and not first at the next start. */
async function newMountProblem(server: GameServer, before: ServerSpec): Promise<string | undefined> {
  const { mounts = [] } = server.spec
  if (JSON.stringify(mounts) === JSON.stringify(before.mounts ?? [])) return undefined
  try {
    server.context.mountRules.resolve(mounts)
    return undefined
  } catch (error) {
    if (!(error instanceof AgentFailure)) throw error
    await server.note(`${error.message}; the next start fails until this is changed`)
    return error.message
  }
}

function sizesOf({ limits: { memoryMb, swapMb, cpuCores, pids } }: ServerSpec): unknown {
  return { memoryMb, swapMb, cpuCores, pids }
}

/** Both are made by the same code, so their fields have one order. */
function waitingOf(spec: ServerSpec): unknown {
  const rest: Partial<ServerSpec> = { ...spec }
  for (const field of LIVE) delete rest[field]
  const { cpuSet, ioWeight } = spec.limits
  return { ...rest, cpuSet, ioWeight }
}
