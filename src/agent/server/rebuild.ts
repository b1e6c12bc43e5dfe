import type { ProgressOf } from '../../shared/protocol/define.ts'
import type { rebuildServer as rebuildCommand } from '../../shared/protocol/server.ts'
import { AgentFailure, asFailure } from '../failure.ts'
import type { GameServer } from './server.ts'
import { fetchable } from './start.ts'

interface RebuildOptions {
  readonly commandId: string
  readonly signal: AbortSignal
  progress(report: ProgressOf<typeof rebuildCommand>): void
}

/**
 * Fetches the server's image anew and removes what its stopped runs have left: the next start makes everything from scratch, over
 * the same files. An image that cannot be fetched now stays in use where it is there. Cut off, it can be carried out again.
 */
export async function rebuildServer(server: GameServer, options: RebuildOptions): Promise<void> {
  const { context, spec, place } = server
  if (server.live !== undefined) throw new AgentFailure('CONFLICT_STATE', 'The server must be stopped to be rebuilt')
  server.restartWait?.abort()
  const { commandId } = options
  await server.change({ activity: 'installing', facts: { nextRestartAtMs: null, reason: null }, commandId })
  let reason: string | null = null
  try {
    options.progress({ step: 'pulling', doneBytes: 0, totalBytes: 0 })
    await fetchable(server, options.signal, (signal) =>
      context.runtimes.of(spec.runtime).renew(place, {
        image: spec.image ?? null,
        signal,
        progress: (report) => options.progress({ step: 'pulling', ...report }),
      }),
    )
    await server.note('Rebuild is complete; the next start makes a new container')
  } catch (error) {
    reason = asFailure(error, 'The agent failed to rebuild the server').message
    if (!context.ending.aborted) await server.note(`Rebuild failed: ${reason}`)
    throw error
  } finally {
    // One that the end of the agent cut off is carried out again.
    if (!context.ending.aborted) {
      await server.refreshBounds()
      await server.change({ activity: null, facts: { reason }, commandId })
    }
  }
}
