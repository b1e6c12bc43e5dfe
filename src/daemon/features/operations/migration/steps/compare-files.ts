import { PanelError } from '../../../../../shared/kernel/errors.ts'
import { verifyFiles as askToVerify } from '../../../../../shared/protocol/migration.ts'
import { agentCodeOf } from '../../../../gateway/agent-errors.ts'
import { findMapped } from '../map.ts'
import { type FileListing, listingOf } from './file-listing.ts'
import { FilesInput, nodeStepId, serverHere, serverThere } from './files-input.ts'
import { type StepContext, StepRefusal, stepAction } from './step.ts'
import { ask } from './transfer-files.ts'

/** Compares the files of a server on both sides with what was brought, and changes nothing. */
export const compareFiles = stepAction({
  input: FilesInput.extend({ ofJob: FilesInput.shape.serverSourceId }),
  run: async (context, { ofJob }) => {
    const { deps, sourceFp, sourceId, signal, options, progress } = context
    const brought = await findMapped(deps.db.read, { sourceFp, sourceType: 'files', sourceId })
    if (brought === undefined) throw new StepRefusal('DIFFERENT', 'Its files have not been brought')
    const { nodeId } = await serverHere(context)
    const warnings: string[] = []
    const there = await listingThere(context)
    if (there === undefined) warnings.push('the keys may not look at the files on the source')
    else if (there.hash !== brought.contentHash) {
      throw new StepRefusal('DIFFERENT', 'Its files have changed on the source since they were brought')
    }
    if (options.verify === 'none') return () => Promise.resolve({ kind: 'done', notes: { warnings } })
    const stepId = nodeStepId({ ...context, jobId: ofJob })
    const mode = options.verify
    const onProgress = (now: { bytes: number; entries: number }) => progress({ ...now, totalBytes: null })
    const checked = await ask(context, nodeId, () =>
      deps.gateway.request(nodeId, askToVerify, { stepId, mode }, { signal, onProgress }),
    ).catch((error: unknown) => {
      if (!(error instanceof PanelError) || agentCodeOf(error) !== 'NOT_FOUND') throw error
      warnings.push('the node no longer knows what came; only the source was compared')
      return undefined
    })
    if (checked !== undefined && checked.differenceCount > 0) {
      const named = checked.differences.slice(0, 5).map(({ path }) => path)
      const text = `${checked.differenceCount} files are not here as they were brought: ${named.join(', ')}`
      throw new StepRefusal('DIFFERENT', text)
    }
    return () => Promise.resolve({ kind: 'done', notes: { warnings, files: checked?.files, read: checked?.read } })
  },
})

/** `undefined`: nothing shows them without bringing them. */
async function listingThere(context: StepContext): Promise<FileListing | undefined> {
  if ((await context.source()).files === null) return undefined
  const { files, server } = await serverThere(context)
  const tree = await files.tree(server, context.signal)
  return tree === undefined ? undefined : listingOf(tree, context.signal)
}
