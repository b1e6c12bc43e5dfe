import type { RuntimeName } from '../../shared/protocol/server-spec.ts'
import { BeginFailure, type ChildKind } from './child.ts'
import type { HeldRun } from './holder-files.ts'
import { processKind } from './process/process-child.ts'

/** Loaded when they are needed: a holder is one of many, and has the child of one kind. */
const KINDS: Readonly<Record<RuntimeName, () => ChildKind | Promise<ChildKind>>> = {
  process: () => processKind,
  docker: async () => (await import('./docker/container-child.ts')).containerKind,
}

/** How the child of a run is kept; rejects for one that a newer version of this program has started. */
export async function childKindOf({ runtime = 'process' }: Pick<HeldRun, 'runtime'>): Promise<ChildKind> {
  if (!Object.hasOwn(KINDS, runtime)) {
    throw new BeginFailure(`This version of the panel cannot hold a run of the runtime ${runtime}`)
  }
  return await KINDS[runtime]()
}
