import type { MigrationDeps } from './deps.ts'
import { DirectorySource } from './source/directory.ts'
import { openSource } from './source/open-source.ts'

/** Opens a source by what it is reached by. */
export function sourceOpener(deps: Pick<MigrationDeps, 'clock' | 'gateway'>): MigrationDeps['openSource'] {
  return async (access, signal) => {
    if (access.kind === 'directory') return new DirectorySource(access, deps.gateway)
    const { url, key, clientApiKey, insecure } = access
    return openSource({ url, key, clientKey: clientApiKey, isInsecure: insecure }, deps, signal)
  }
}
