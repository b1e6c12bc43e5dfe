import { z } from 'zod'
import { beforeIdsOf } from '../../../../../shared/kernel/ids.ts'
import type { IsoTime } from '../../../../../shared/kernel/time.ts'
import { placeFiles as askToPlace, wipeFiles } from '../../../../../shared/protocol/migration.ts'
import { recordFact } from '../../../../access/operation.ts'
import { findServerRow } from '../../../servers/servers/rows.ts'
import { suspend } from '../../../servers/servers/suspend.ts'
import { findMapped } from '../map.ts'
import { FileListing } from './file-listing.ts'
import { FilesInput, nodeStepId, notesOf, serverHere } from './files-input.ts'
import { MOVING_IN } from './import-server.ts'
import { panelWork } from './panel-work.ts'
import { type StepContext, StepDelay, StepRefusal, stepAction } from './step.ts'
import { ask, broughtFiles } from './transfer-files.ts'

const STOP_MS = 120_000
const LOOK_MS = 100

/**
 * Puts the files that have come into the place of the server's folder. What an earlier run has brought is replaced, unless the server was
 * started here since: then there may be something new in it, and somebody decides.
 */
export const placeFiles = stepAction({
  input: FilesInput,
  run: async (context, input) => {
    const { deps, signal, progress, options, sourceFp, sourceId } = context
    const here = await serverHere(context)
    const { pulled, isPlaced } = await broughtFiles(context, input)
    const before = await findMapped(deps.db.read, { sourceFp, sourceType: 'files', sourceId })
    // Where the source shows no times and sizes, only what has come shows that it is the same.
    if (!isPlaced && before?.targetId === here.id && before.contentHash === pulled.manifestSha256) {
      await ask(context, here.nodeId, () =>
        deps.gateway.request(here.nodeId, wipeFiles, { stepId: nodeStepId(context) }),
      )
      return () => Promise.resolve({ kind: 'skipped', reason: 'unchanged' })
    }
    const isOurs = before?.targetId === here.id && !(await wasStarted(context, here.id, before.updatedAt))
    const existing = isOurs ? 'replace' : options.conflicts.files
    if (before?.targetId === here.id && existing === 'fail') {
      throw new StepRefusal(
        'FILES_EXIST',
        'The server was started here since its files were brought; replace them by the option conflicts.files, or leave them',
      )
    }
    await hold(context, here.id)
    const stepId = nodeStepId(context)
    const onProgress = (now: { bytes: number; entries: number }) => progress({ ...now, totalBytes: pulled.bytes })
    await ask(context, here.nodeId, () =>
      deps.gateway.request(here.nodeId, askToPlace, { stepId, serverId: here.id, existing }, { signal, onProgress }),
    )
    const seen = await notesOf(context, 'freeze_source', z.looseObject({ listing: FileListing.nullish() }))
    const came = await notesOf(context, 'transfer_files', z.looseObject({ state: z.string().nullish() }))
    const contentHash = seen?.notes?.listing?.hash ?? came?.notes?.state ?? pulled.manifestSha256
    const notes = { files: pulled.files, bytes: pulled.bytes, replaced: before !== undefined }
    return () =>
      Promise.resolve({
        kind: 'done',
        target: { type: 'files', id: here.id, created: before === undefined, contentHash },
        notes,
      })
  },
})

/** Nobody starts it while its folder is exchanged; one that runs is stopped. */
async function hold(context: StepContext, serverId: string): Promise<void> {
  const { deps, principal, signal } = context
  const { db, clock } = deps
  const row = await findServerRow(db.read, serverId)
  if (row === undefined) throw new StepRefusal('SERVER_NOT_FOUND', 'Its server has been deleted here')
  if (row.suspendedAt === null) {
    await db.write(async (tx) => {
      const { done } = await suspend(panelWork(tx, deps), { serverId, reason: MOVING_IN, stopServer: true })
      const audit = done.audit && { ...done.audit, action: 'server.suspend', resource: 'server' }
      await recordFact(tx, { deps, principal }, { audit, events: done.events ?? [] })
    })
  }
  for (const untilMs = clock.monotonicMs() + STOP_MS; ; ) {
    const now = await db.read.selectFrom('server').select('power').where('id', '=', serverId).executeTakeFirst()
    if (now === undefined || now.power === 'offline') return
    if (clock.monotonicMs() > untilMs) throw new StepDelay('SERVER_RUNNING', 'The server does not stop here')
    await clock.sleep(LOOK_MS, signal)
    signal.throwIfAborted()
  }
}

/** Whether somebody has started it here since a time. */
export async function wasStarted({ deps: { db } }: StepContext, serverId: string, since: IsoTime): Promise<boolean> {
  const row = await db.read
    .selectFrom('server')
    .select(['startedAt', 'power'])
    .where('id', '=', serverId)
    .executeTakeFirst()
  if (row?.power === 'running' || (row?.startedAt ?? '') > since) return true
  const order = await db.read
    .selectFrom('command')
    .select('id')
    .where('serverId', '=', serverId)
    .where('op', 'in', ['start', 'restart'])
    .where('createdAt', '>', since)
    .where('id', '>', beforeIdsOf('cmd', Date.parse(since))) // ids are in an index, times are not
    .executeTakeFirst()
  return order !== undefined
}
