import type { MigrationDeps } from './deps.ts'
import { openSource } from './source/open-source.ts'
import { SourceFailure } from './source/source.ts'

/** Opens a source by what it is reached by. */
export function sourceOpener(deps: Pick<MigrationDeps, 'clock'>): MigrationDeps['openSource'] {
  return (access, signal) => {
    if (access.kind === 'directory') {
      return Promise.reject(new SourceFailure('not-a-source', 'this panel reads no folders of nodes yet'))
    }
    const { url, key, clientApiKey, insecure } = access
    return openSource({ url, key, clientKey: clientApiKey, isInsecure: insecure }, deps, signal)
  }
}
