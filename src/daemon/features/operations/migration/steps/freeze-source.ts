import { findMapped } from '../map.ts'
import { SourceFailure } from '../source/source.ts'
import { type FileListing, listingOf } from './file-listing.ts'
import { FilesInput, type ServerThere, serverThere } from './files-input.ts'
import { noteChange } from './source-changes.ts'
import { type StepContext, stepAction } from './step.ts'

/** How long a server of the source may take to stop before it is killed, and then again. */
const STOP_MS = 120_000
const KILL_MS = 30_000
const FIRST_LOOK_MS = 250
const MOST_LOOK_MS = 5_000

/**
 * Looks whether the files are still those that were brought before, and keeps them from changing while they are read. What it changes
 * on the source is put back at the end.
 */
export const freezeSource = stepAction({
  input: FilesInput,
  run: async (context) => {
    const { deps, sourceFp, sourceId } = context
    const there = await serverThere(context)
    const before = await findMapped(deps.db.read, { sourceFp, sourceType: 'files', sourceId })
    const first = before === undefined ? undefined : await listed(context, there)
    if (first !== undefined && before?.contentHash === first.hash && (await isHere(context, before.targetId))) {
      return () => Promise.resolve({ kind: 'skipped', reason: 'unchanged', notes: { listing: first } })
    }
    const frozen = await freeze(context, there)
    // Read when nothing changes any more: the next run compares with it.
    const listing = await listed(context, there)
    return () => Promise.resolve({ kind: 'done', notes: { frozen, listing: listing ?? null } })
  },
})

/** Holds the server still as the options say; safe to repeat. */
export async function freeze(context: StepContext, { files, server }: ServerThere): Promise<string> {
  const { options, signal } = context
  if (options.freeze === 'none' || server.isSuspended || !server.isInstalled) return 'none'
  if (options.freeze === 'suspend') {
    await noteChange(context, { wasSuspended: false })
    await files.setSuspended(server.id, true, signal)
    return 'suspended'
  }
  const power = await files.power(server, signal)
  if (power === 'offline') return 'none'
  // One that is already on its way down was not to be started again by us.
  if (power !== 'stopping') await noteChange(context, { wasRunning: true })
  await files.setPower(server, 'stop', signal)
  if (await isOffline(context, { files, server }, STOP_MS)) return 'stopped'
  await files.setPower(server, 'kill', signal)
  if (await isOffline(context, { files, server }, KILL_MS)) return 'killed'
  throw new SourceFailure('state', 'The server does not stop on the source', { isTransient: true })
}

async function isOffline(
  { deps: { clock }, signal }: StepContext,
  { files, server }: Pick<ServerThere, 'files' | 'server'>,
  patienceMs: number,
): Promise<boolean> {
  const untilMs = clock.monotonicMs() + patienceMs
  for (let waitMs = FIRST_LOOK_MS; clock.monotonicMs() < untilMs; waitMs = Math.min(waitMs * 2, MOST_LOOK_MS)) {
    if ((await files.power(server, signal)) === 'offline') return true
    await clock.sleep(waitMs, signal)
    signal.throwIfAborted()
  }
  return false
}

/** `undefined`: the keys may not look at its node. */
async function listed({ signal }: StepContext, { files, server }: ServerThere): Promise<FileListing | undefined> {
  const tree = await files.tree(server, signal)
  return tree === undefined ? undefined : listingOf(tree, signal)
}

async function isHere({ deps: { db } }: StepContext, serverId: string): Promise<boolean> {
  return (await db.read.selectFrom('server').select('id').where('id', '=', serverId).executeTakeFirst()) !== undefined
}
