import { z } from 'zod'
import type { SourceBackup } from '../source/model.ts'
import { SourceFailure } from '../source/source.ts'
import type { ServerThere } from './files-input.ts'
import { noteChange } from './source-changes.ts'
import { type StepContext, StepRefusal } from './step.ts'

/** How the files of a server come: as a backup of the source, or one by one from its node. */
export const Way = z.discriminatedUnion('way', [
  z.object({ way: z.literal('backup'), uuid: z.string(), sha1: z.string(), bytes: z.number() }),
  z.object({ way: z.literal('node'), why: z.string() }),
])
export type Way = z.infer<typeof Way>

const FIRST_LOOK_MS = 250
const MOST_LOOK_MS = 15_000

/**
 * Has the source make a backup, under a name that no other migration has, or finds the one that it has made before; where it makes none,
 * the files come one by one. What it changes on the source is written down before.
 */
export async function archiveAtSource(context: StepContext, there: ServerThere): Promise<Way> {
  const { options } = context
  const { server, source } = there
  if (options.transport === 'node') return await byNode(context, there, 'that way was chosen')
  if (server.isSuspended) return await byNode(context, there, 'the source makes no backup of a suspended server')
  if (server.state !== 'ready')
    return await byNode(context, there, `the source makes no backup of a server that is ${server.state}`)
  try {
    await ensureSlot(context, there)
    const backup = await made(context, there)
    if (backup === undefined) {
      const seconds = options.backupTimeoutSeconds
      return await byNode(context, there, `its backup was not ready within ${seconds} s`)
    }
    const { uuid, sha1, bytes } = backup
    if (sha1 === null) return await byNode(context, there, 'the source names no checksum of its backup')
    return { way: 'backup', uuid, sha1, bytes }
  } catch (error) {
    if (!(error instanceof SourceFailure) || !INSTEAD.has(error.problem)) throw error
    context.signal.throwIfAborted()
    return await byNode(context, there, `${source.flavor} makes no backup: ${error.message}`)
  }
}

/** Where a backup cannot be had and the node may be asked all the same. */
const INSTEAD = new Set(['slots', 'denied', 'state', 'rejected'])

async function byNode({ options, signal }: StepContext, { files, server }: ServerThere, why: string): Promise<Way> {
  if (options.transport === 'backup') {
    throw new StepRefusal('NO_BACKUP', `Its files were to come as a backup of the source, but ${why}`)
  }
  // Looks whether the keys may do it, before somebody waits for it.
  if ((await files.tree(server, signal)) === undefined) {
    const message = `Its files cannot be read: ${why}, and the key may not read the configuration of nodes`
    throw new StepRefusal('SOURCE_RIGHTS_MISSING', message)
  }
  return { way: 'node', why }
}

/** Raises the limit by what is missing and nothing else. An old backup is neither used nor removed. */
async function ensureSlot(context: StepContext, { source, files, server }: ServerThere): Promise<void> {
  const { signal } = context
  const name = backupName(context)
  const { items } = await source.backups(server, signal)
  if (items.some((one) => one.name === name && one.state !== 'failed')) return
  // Failed ones take no slot.
  const used = items.filter(({ state }) => state !== 'failed').length
  const build = await files.build(server.id, signal)
  if ((build.featureLimits.backups ?? 0) > used) return
  await noteChange(context, { build })
  const featureLimits = { ...build.featureLimits, backups: used + 1 }
  await files.setBuild(server.id, { ...build, featureLimits }, signal)
}

/** The good one; `undefined`: it has taken too long. Throws where it has failed. */
async function made(context: StepContext, { files, server }: ServerThere): Promise<SourceBackup | undefined> {
  const { deps, options, signal } = context
  const { clock } = deps
  const name = backupName(context)
  await noteChange(context, { backups: [name] })
  let backup: SourceBackup | undefined = await files.createBackup(server, { name, ignored: [] }, signal)
  const untilMs = clock.monotonicMs() + options.backupTimeoutSeconds * 1000
  for (let waitMs = FIRST_LOOK_MS; ; waitMs = Math.min(waitMs * 2, MOST_LOOK_MS)) {
    if (backup?.state === 'good') return backup
    if (backup?.state === 'failed') {
      await files.deleteBackup(server, backup.uuid, signal)
      throw new SourceFailure('broken', 'The source says that the backup failed', { isTransient: true })
    }
    if (backup === undefined)
      throw new SourceFailure('broken', 'The backup is gone from the source', { isTransient: true })
    if (clock.monotonicMs() >= untilMs) return undefined
    await clock.sleep(waitMs, signal)
    signal.throwIfAborted()
    backup = await files.backup(server, backup.uuid, signal)
  }
}

/** Names the backup of this server and migration, in the source's own lists too. */
export function backupName({ jobId, sourceId }: StepContext): string {
  return `panel-${jobId}-${sourceId}`.slice(0, 191)
}
