import { verifyFiles as askToVerify, wipeFiles } from '../../../../../shared/protocol/migration.ts'
import { FilesInput, nodeStepId, serverHere } from './files-input.ts'
import { StepDelay, stepAction } from './step.ts'
import { ask, broughtFiles } from './transfer-files.ts'

/** Reads the files that have come once more, and compares them with what was hashed while they came. */
export const verifyFiles = stepAction({
  input: FilesInput,
  run: async (context, input) => {
    const { deps, options, signal, progress } = context
    const mode = options.verify
    if (mode === 'none') return () => Promise.resolve({ kind: 'done', notes: { mode } })
    await broughtFiles(context, input)
    const { nodeId } = await serverHere(context)
    const stepId = nodeStepId(context)
    const onProgress = (now: { bytes: number; entries: number }) => progress({ ...now, totalBytes: null })
    const checked = await ask(context, nodeId, () =>
      deps.gateway.request(nodeId, askToVerify, { stepId, mode }, { signal, onProgress }),
    )
    if (checked.differenceCount > 0) {
      // Brought anew by the next attempt.
      await ask(context, nodeId, () => deps.gateway.request(nodeId, wipeFiles, { stepId }))
      const [first] = checked.differences
      throw new StepDelay(
        'CHECKSUM',
        `${checked.differenceCount} files on the node are not what came: ${first?.path ?? ''}: ${first?.reason ?? ''}`,
      )
    }
    const { files, read, bytes } = checked
    return () => Promise.resolve({ kind: 'done', notes: { mode, files, read, bytes } })
  },
})
