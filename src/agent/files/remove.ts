import { AgentFailure } from '../failure.ts'
import { codeOf } from './folder-handle.ts'
import { cancelled } from './list.ts'
import { factsIn, failureOf, folderIn, type Place, withPlace } from './place.ts'
import { Problems } from './problems.ts'
import type { PathRules } from './rules.ts'
import { emptyHandle } from './tree.ts'

/** How an operation on many entries is watched. */
export interface ManyOptions {
  readonly signal: AbortSignal
  readonly rules: PathRules
  readonly progress: (report: { readonly entries: number; readonly bytes: number }) => void
}

/**
 * Removes entries one after the other, folders with all that is in them; a link is removed and never followed. What cannot be removed
 * is named, and the others are removed; a single one fails by itself.
 */
export async function removeEntries(
  root: string,
  paths: readonly string[],
  { signal, progress, rules }: ManyOptions,
): Promise<{ entries: number } & Problems['answer']> {
  const problems = new Problems()
  let entries = 0
  const count = (): void => progress({ entries: ++entries, bytes: 0 })
  for (const [number, path] of paths.entries()) {
    const field = { field: `paths.${number}` }
    try {
      await withPlace(root, path, (place) => removeOne(place, path, { signal, count, field, rules }), field)
    } catch (error) {
      if (!(error instanceof AgentFailure) || paths.length === 1 || signal.aborted) throw error
      problems.add(path, error.message)
    }
    if (signal.aborted) throw cancelled()
  }
  return { entries, ...problems.answer }
}

async function removeOne(
  place: Place,
  path: string,
  {
    signal,
    count,
    field,
    rules,
  }: Pick<ManyOptions, 'signal' | 'rules'> & { count: () => void; field: { readonly field: string } },
): Promise<void> {
  if (!factsIn(place, path, field).isDirectory()) {
    rules.refuseUnreached(path, false)
    if (!place.folder.unlink(place.name)) throw new AgentFailure('CONFLICT_STATE', 'It has become a folder; look again')
    return count()
  }
  const folder = folderIn(place, path, field)
  try {
    await rules.refuseDeniedIn(folder, [path], signal)
    if (signal.aborted) throw cancelled()
    await emptyHandle(folder, { stop: () => signal.aborted, removed: count })
  } catch (error) {
    if (error instanceof AgentFailure) throw error
    if (codeOf(error) !== undefined) throw failureOf(error, field)
    throw new AgentFailure(
      'CONFLICT_STATE',
      'Something makes files there again and again; stop the server and try again',
    )
  } finally {
    folder.close()
  }
  if (signal.aborted) throw cancelled()
  if (!place.folder.removeFolder(place.name)) {
    throw new AgentFailure('CONFLICT_STATE', 'Something was put into the folder meanwhile; try again')
  }
  count()
}
