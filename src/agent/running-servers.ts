import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { machineBootId, processStart } from '../shared/platform/process-identity.ts'
import { type HolderRecord, holderPaths } from './holder/holder-files.ts'
import { livingPids, scopeOf } from './holder/run-processes.ts'
import { readOwnJson } from './state/json-file.ts'
import { agentLayout } from './state/layout.ts'

/** The ids of the servers below an agent's data folder whose processes live, also while no agent runs. */
export async function runningServers(dataDir: string): Promise<string[]> {
  const { stateDir } = agentLayout(dataDir)
  const ids = await readdir(stateDir).catch(nobody)
  const records = await Promise.all(ids.map((id) => readOwnJson<HolderRecord>(holderPaths(join(stateDir, id)).record)))
  const living = await Promise.all(records.map(lives))
  return ids.filter((_, place) => living[place])
}

/** A run lives as long as any process of it: its first one may have gone into the background. */
async function lives(record: HolderRecord | undefined): Promise<boolean> {
  if (record === undefined || record.forgotten || record.bootId !== (await machineBootId())) return false
  return (await processStart(record.pid)) === record.start || livingPids(scopeOf(record)).length > 0
}

/** A machine without the folder, or whose folder is another user's, has no servers of whoever asks. */
function nobody(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT' || error.code === 'EACCES') return []
  throw error
}
