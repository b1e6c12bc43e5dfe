import { link, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'

/** Who holds a data folder. `start` is the kernel's start time of the process: numbers are used again. */
const Holder = z.object({
  pid: z.int(),
  start: z.string(),
  startedAt: z.string(),
  /** Where it listens, once it does. */
  url: z.string().optional(),
})
export type Holder = z.infer<typeof Holder>

/** Another daemon works on this data folder. */
export class DataFolderBusy extends Error {
  override readonly name = 'DataFolderBusy'
  readonly holder: Holder

  constructor(dataDir: string, holder: Holder) {
    super(`Another daemon (process ${holder.pid}) works on ${dataDir}; stop it with: panel down`)
    this.holder = holder
  }
}

/** A held lock. */
export interface DataLock {
  /** Tells others where the daemon listens. */
  announce(url: string): Promise<void>
  release(): Promise<void>
}

/** Takes the data folder for this process (decisions §3.4); the lock of a dead one is taken over. */
export async function lockData(dataDir: string, startedAt: string): Promise<DataLock> {
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  const file = lockFile(dataDir)
  const mine: Holder = { pid: process.pid, start: (await startOf(process.pid)) ?? '', startedAt }
  await write(file, mine, async (temporary) => {
    for (let attempt = 0; attempt < 10; attempt++) {
      try {
        // A link appears with its whole content, so that nobody reads a half-written lock.
        return await link(temporary, file)
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
      }
      const holder = await findHolder(dataDir)
      if (holder !== undefined) throw new DataFolderBusy(dataDir, holder)
      await removeStale(file)
    }
    throw new Error(`the lock ${file} changes hands too often`)
  })
  return {
    announce: (url) => write(file, { ...mine, url }, (temporary) => rename(temporary, file)),
    release: () => rm(file, { force: true }),
  }
}

/** The living daemon of a data folder. */
export function findHolder(dataDir: string): Promise<Holder | undefined> {
  return livingHolder(lockFile(dataDir))
}

async function livingHolder(file: string): Promise<Holder | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  const holder = Holder.safeParse(parsed(text))
  if (!holder.success || (await startOf(holder.data.pid)) !== holder.data.start) return undefined
  return holder.data
}

/** A power cut can leave an empty lock: its daemon is gone with it. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // no holder's words, which is what the caller is told
  }
}

/** Moves a dead one's lock aside; when that caught the fresh lock of a daemon that was quicker, it is put back. */
async function removeStale(file: string): Promise<void> {
  const aside = `${file}.${globalThis.crypto.randomUUID()}`
  try {
    await rename(file, aside)
  } catch {
    return // somebody else took it away first: the caller tries again
  }
  try {
    if ((await livingHolder(aside)) !== undefined) await link(aside, file)
  } finally {
    await rm(aside, { force: true })
  }
}

function lockFile(dataDir: string): string {
  return join(dataDir, 'daemon.lock')
}

async function write(file: string, holder: Holder, place: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${file}.${globalThis.crypto.randomUUID()}`
  await writeFile(temporary, `${JSON.stringify(holder)}\n`, { mode: 0o600 })
  try {
    await place(temporary)
  } finally {
    await rm(temporary, { force: true })
  }
}

/** The kernel's start time of a living process; `undefined` for none and for a zombie. */
async function startOf(pid: number): Promise<string | undefined> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19]
  } catch {
    return undefined // no such process: that is the answer
  }
}
