import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoreAccess } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { LocalStore } from './local-store.ts'
import type { ObjectStore } from './store.ts'

/** What an agent knows of stores by itself. */
export interface BackupFolders {
  /** Where backups of local stores lie unless another folder is named. */
  readonly folder: string
  /** Further ones, by their names in `agent.yaml`. */
  readonly named: Readonly<Record<string, string>>
}

/** Opens what a request names. */
export interface Stores {
  /** The part of a store that one server has. */
  of(access: StoreAccess, ownerId: string): ObjectStore
  /** The servers that a local store has backups of. */
  owners(access: StoreAccess): Promise<string[]>
}

const OWNER = /^[A-Za-z0-9_-]{1,64}$/

/** Makes them for one agent; `remote` opens object stores that are asked for at a ticket. */
export function createStores({ folder, named }: BackupFolders, remote: (ticket: string) => ObjectStore): Stores {
  const folderOf = (access: Extract<StoreAccess, { kind: 'local' }>): string => {
    const base =
      access.folder === null ? folder : Object.hasOwn(named, access.folder) ? named[access.folder] : undefined
    if (base !== undefined) return join(base, access.storeId)
    const message = `This node has no folder for backups that is called ${access.folder}: add it to backups.folders in its agent.yaml`
    throw new AgentFailure('NOT_FOUND', message)
  }
  return {
    of: (access, ownerId) =>
      access.kind === 'local' ? new LocalStore(join(folderOf(access), ownerId)) : remote(access.ticket),
    owners: async (access) => {
      if (access.kind !== 'local') return []
      try {
        return (await readdir(folderOf(access))).filter((name) => OWNER.test(name)).sort()
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return []
        throw error
      }
    },
  }
}
