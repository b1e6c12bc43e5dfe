import { FilesInput, serverThere } from './files-input.ts'
import { changesOf } from './source-changes.ts'
import { stepAction } from './step.ts'

/** Puts the source back as it was found: our backups, the limits, the suspension, the game. Each of it may be repeated. */
export const sourceCleanup = stepAction({
  input: FilesInput,
  run: async (context) => {
    const { signal, jobId, stepId } = context
    const changes = await changesOf(context)
    if (changes !== undefined) {
      const { source, files, server } = await serverThere(context)
      const { items } = await source.backups(server, signal)
      const names = new Set(changes.backups)
      for (const { uuid } of items.filter(({ name }) => names.has(name))) await files.deleteBackup(server, uuid, signal)
      const { build, wasSuspended, wasRunning } = changes
      if (build !== null) await files.setBuild(server.id, build, signal)
      if (wasSuspended !== null) await files.setSuspended(server.id, wasSuspended, signal)
      if (wasRunning && (await files.power(server, signal)) === 'offline') await files.setPower(server, 'start', signal)
    }
    return async (tx) => {
      await tx.q
        .updateTable('migrationStep')
        .set({ intent: null })
        .where('jobId', '=', jobId)
        .where('id', '=', stepId)
        .execute()
      return { kind: 'done', notes: changes === undefined ? {} : { putBack: changes } }
    }
  },
})
