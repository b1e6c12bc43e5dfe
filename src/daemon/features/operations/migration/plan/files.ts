import type { Planning, ServerInScope } from './scope.ts'

/** Requests for the files of one server. */
const REQUESTS_PER_TRANSFER = 8

/** What becomes of a server's files, one after the other. */
const FILE_STEPS = [
  'freeze_source',
  'create_backup',
  'transfer_files',
  'verify_files',
  'place_files',
  'source_cleanup',
] as const

/** Of a folder of the node nothing has to be made or put back. */
const DIRECTORY_STEPS = ['transfer_files', 'verify_files', 'place_files'] as const

/** What shares a node goes one after the other. */
function laneOf(action: (typeof FILE_STEPS)[number], { server, node }: ServerInScope): string | undefined {
  if (action === 'create_backup') return `backup ${server.nodeId}`
  return action === 'transfer_files' ? `transfer ${node.id}` : undefined
}

/** A server's files; `whileFrozen` plans what else is read while the source holds it still, and answers the steps of that. The way is chosen when the step runs: what the source can do then decides. */
export function planFiles(
  { source, phases, draft }: Planning,
  { server, node }: ServerInScope,
  whileFrozen: (frozen: string | undefined) => readonly string[],
): void {
  if (!phases.has('files')) {
    whileFrozen(undefined)
    return
  }
  let others: readonly string[] = []
  draft.ask(REQUESTS_PER_TRANSFER)
  const { id, name, isInstalled } = server
  const nodeOrigin = source.nodes.find((one) => one.id === server.nodeId)?.origin ?? null
  let before: string | undefined = draft.bringing(`server ${id}`)
  for (const action of source.isDirectory ? DIRECTORY_STEPS : FILE_STEPS) {
    const lane = laneOf(action, { server, node })
    before = draft.add({
      phase: 'files',
      action,
      type: 'files',
      id,
      name,
      target: { type: 'server', id: null, name },
      op: isInstalled ? 'update' : 'skip',
      reason: isInstalled ? undefined : 'not_installed',
      // What was changed on the source is put back also when nothing came over.
      ...(action === 'source_cleanup' ? { follows: [before, ...others] } : { needs: [before] }),
      input: { serverSourceId: id, nodeOrigin, ...(lane === undefined ? {} : { lane }) },
    })
    if (action === 'freeze_source') others = whileFrozen(before)
  }
}
