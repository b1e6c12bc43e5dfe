import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { processStart } from '../shared/platform/process-identity.ts'
import { type HolderRecord, holderPaths } from './holder/holder-files.ts'
import { readOwnJson } from './holder/json-file.ts'
import { agentLayout } from './layout.ts'

/** The ids of the servers below an agent's data folder whose processes live, also while no agent runs. */
export async function runningServers(dataDir: string): Promise<string[]> {
  const { stateDir } = agentLayout(dataDir)
  const ids = await readdir(stateDir).catch(nobody)
  const records = await Promise.all(ids.map((id) => readOwnJson<HolderRecord>(holderPaths(join(stateDir, id)).record)))
  const living = await Promise.all(records.map(lives))
  return ids.filter((_, place) => living[place])
}

async function lives(record: HolderRecord | undefined): Promise<boolean> {
  return record !== undefined && !record.forgotten && (await processStart(record.pid)) === record.start
}

/** A machine without the folder, or whose folder is another user's, has no servers of whoever asks. */
function nobody(error: NodeJS.ErrnoException): string[] {
  if (error.code === 'ENOENT' || error.code === 'EACCES') return []
  throw error
}
