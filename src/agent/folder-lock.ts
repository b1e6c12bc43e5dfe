import { link, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { AgentFailure } from './failure.ts'
import { processStart } from './process-identity.ts'

/** A held lock; `release` frees it. */
export interface FolderLock {
  release(): Promise<void>
}

/**
 * Locks a data folder for this process. The lock names the process by number and start time, so that the lock of a dead
 * one is taken over even when its number is in use again. Throws CONFLICT_STATE while another agent lives.
 */
export async function lockFolder(lockFile: string): Promise<FolderLock> {
  const mine = `${process.pid} ${(await processStart(process.pid)) ?? ''} ${globalThis.crypto.randomUUID()}\n`
  for (let attempt = 0; attempt < 5; attempt++) {
    if (await create(lockFile, mine)) return { release: () => release(lockFile, mine) }
    const held = await content(lockFile)
    if (held === undefined) continue
    await refuseWhenAlive(held)
    await removeStale(lockFile, held)
  }
  throw new AgentFailure(
    'CONFLICT_STATE',
    'The lock of the data folder changes hands too often: is another agent starting?',
  )
}

async function create(lockFile: string, text: string): Promise<boolean> {
  const temporary = `${lockFile}.${globalThis.crypto.randomUUID()}`
  await writeFile(temporary, text, { flag: 'wx', mode: 0o600 })
  try {
    // A link appears with its whole content, so that nobody reads a half-written lock.
    await link(temporary, lockFile)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  } finally {
    await rm(temporary, { force: true })
  }
}

async function content(lockFile: string): Promise<string | undefined> {
  try {
    return await readFile(lockFile, 'utf8')
  } catch {
    return undefined // released a moment ago: the caller tries again
  }
}

async function refuseWhenAlive(held: string): Promise<void> {
  const [pid, start] = held.trim().split(' ')
  if (pid === undefined || start === undefined) return
  if ((await processStart(Number(pid))) === start) {
    throw new AgentFailure('CONFLICT_STATE', `Another agent (process ${pid}) is using this data folder`)
  }
}

/** Moves the lock aside; when that caught somebody's fresh lock instead of the stale one, it is put back. */
async function removeStale(lockFile: string, stale: string): Promise<void> {
  const aside = `${lockFile}.${globalThis.crypto.randomUUID()}`
  try {
    await rename(lockFile, aside)
  } catch {
    return // somebody else took it away first: the caller tries again
  }
  try {
    if ((await readFile(aside, 'utf8')) !== stale) await link(aside, lockFile)
  } finally {
    await rm(aside, { force: true })
  }
}

async function release(lockFile: string, mine: string): Promise<void> {
  if ((await content(lockFile)) === mine) await rm(lockFile, { force: true })
}
