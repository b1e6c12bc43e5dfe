import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { StoreAccess } from '../../shared/protocol/backups.ts'
import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { LocalStore } from './local-store.ts'
import type { ObjectStore } from './store.ts'
import type { MarkedFolder, StoreMarks } from './store-marks.ts'

/** What an agent knows of stores by itself. */
export interface BackupFolders {
  /** Where backups of local stores lie unless another folder is named. */
  readonly folder: string
  /** That is in the data folder of the agent, and no disk of its own. */
  readonly isOwn: boolean
  /** Further ones, by their names in `agent.yaml`. */
  readonly named: Readonly<Record<string, string>>
}

/** Opens what a request names. */
export interface Stores {
  /** The part of a store that one server has; to be written to, also where nothing lies yet. */
  of(access: StoreAccess, ownerId: string, use?: 'read' | 'write'): ObjectStore
  /** The servers that a local store has backups of. */
  owners(access: StoreAccess): Promise<string[]>
}

const OWNER = /^[A-Za-z0-9_-]{1,64}$/

/** Makes them for one agent; `remote` opens object stores that are asked for at a ticket. */
export function createStores(
  { folder, isOwn, named }: BackupFolders,
  { remote, marks }: { readonly remote: (ticket: string) => ObjectStore; readonly marks: StoreMarks },
): Stores {
  type Local = Extract<StoreAccess, { kind: 'local' }>
  const baseOf = ({ folder: name }: Local): MarkedFolder => {
    const path = name === null ? folder : Object.hasOwn(named, name) ? named[name] : undefined
    if (path !== undefined) return { path, name }
    const message = `This node has no folder for backups that is called ${name}: add it to backups.folders in its agent.yaml`
    throw new AgentFailure('NOT_FOUND', message)
  }
  const ready = async (base: MarkedFolder, use: 'read' | 'write'): Promise<void> => {
    if (base.name !== null || !isOwn) await marks.check(base, use === 'write')
  }
  return {
    of: (access, ownerId, use = 'read') => {
      if (access.kind !== 'local') return remote(access.ticket)
      const base = baseOf(access)
      return new LocalStore(join(base.path, access.storeId, ownerId), () => ready(base, use))
    },
    owners: async (access) => {
      if (access.kind !== 'local') return []
      const base = baseOf(access)
      await ready(base, 'read')
      try {
        return (await readdir(join(base.path, access.storeId))).filter((name) => OWNER.test(name)).sort()
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return []
        throw error
      }
    },
  }
}
