import { type FileHandle, open, readFile, readlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { z } from 'zod'
import { systemClock } from '../kernel/time.ts'
import { isLocked, takeLock } from './file-lock.ts'
import { machineBootId, processStart } from './process-identity.ts'

/** Who works on a folder, in its own words. */
const FolderHolder = z.object({
  pid: z.int(),
  /** The kernel's start time of the process, because numbers are used again. */
  start: z.string(),
  /** In which boot and which pid namespace the number stands for that process. */
  boot: z.string(),
  namespace: z.string(),
  host: z.string(),
  startedAt: z.string(),
  /** Where it listens, once it does. */
  url: z.string().optional(),
})
export type FolderHolder = z.infer<typeof FolderHolder> & {
  /** Whether `pid` is a process that is seen from here: not so in another container or on another machine. */
  readonly isHere: boolean
}

/** Another process works on the folder. */
export class FolderInUse extends Error {
  override readonly name = 'FolderInUse'
  readonly holder: FolderHolder

  constructor(what: string, folder: string, holder: FolderHolder, wayOut: string) {
    super(`${what} (${placeOf(holder)}) works on ${folder}; ${holder.isHere ? wayOut : ELSEWHERE}`)
    this.holder = holder
  }
}

const ELSEWHERE =
  'it runs in another container or on another machine: stop it there, or give this one a folder of its own'

/** A held lock. */
export interface FolderLock {
  /** Lets others know where its holder listens. */
  announce(url: string): Promise<void>
  release(): Promise<void>
}

/** A holder may be ending at this moment, and whoever asks for it holds the lock for an instant. */
const WAIT_SECONDS = 1
const READ_TRIES = 50
const READ_PAUSE_MS = 20
/** What the holder says of itself always takes as much room, so that it is replaced by one write. */
const BLOCK = 1024

/**
 * Takes a folder for the rest of this process's life, by the kernel's lock on `file` in it: two processes never have it at
 * once, whichever containers they run in, and a dead one leaves nothing to clean up. Resolves with the holder when another
 * process has it.
 */
export async function lockFolder(
  file: string,
  startedAt: string,
): Promise<{ readonly lock: FolderLock } | { readonly holder: FolderHolder }> {
  for (;;) {
    const handle = await takeLock(file, WAIT_SECONDS)
    if (handle !== undefined) return { lock: await heldBy(handle, startedAt) }
    const holder = await folderHolder(file)
    if (holder !== undefined) return { holder }
  }
}

/** The living holder of the lock, `undefined` when nobody has it. */
export async function folderHolder(file: string): Promise<FolderHolder | undefined> {
  let handle: FileHandle
  try {
    handle = await open(file, 'r')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  try {
    for (let attempt = 0; attempt < READ_TRIES; attempt++) {
      if (!(await isLocked(handle))) return undefined
      const holder = await readHolder(file)
      if (holder !== undefined) return holder
      await systemClock.sleep(READ_PAUSE_MS) // it has the lock and is about to say who it is
    }
  } finally {
    await handle.close()
  }
  throw new Error(`${file} is locked by a process that does not say who it is; "fuser -v ${file}" finds it`)
}

/** `process 12 on box since …`. */
function placeOf({ pid, host, startedAt }: FolderHolder): string {
  return `process ${pid} on ${host} since ${startedAt}`
}

async function heldBy(handle: FileHandle, startedAt: string): Promise<FolderLock> {
  const mine = {
    pid: process.pid,
    start: (await processStart(process.pid)) ?? '',
    boot: await machineBootId(),
    namespace: await pidNamespace(),
    host: hostname(),
    startedAt,
  }
  const announce = async (url?: string): Promise<void> => {
    const text = `${JSON.stringify({ ...mine, url })}\n`
    await handle.write(text.padEnd(Math.ceil(text.length / BLOCK) * BLOCK), 0)
  }
  try {
    await announce()
  } catch (error) {
    await handle.close()
    throw error
  }
  let held = true
  return {
    announce,
    release: async () => {
      if (!held) return
      held = false
      await handle.truncate(0)
      await handle.close()
    },
  }
}

async function readHolder(file: string): Promise<FolderHolder | undefined> {
  const said = FolderHolder.safeParse(parsed(await readFile(file, 'utf8')))
  if (!said.success) return undefined
  const { pid, start, boot, namespace } = said.data
  const isHere = boot === (await machineBootId()) && namespace === (await pidNamespace())
  // The words of an earlier holder, which the new one is about to replace.
  if (isHere && (await processStart(pid)) !== start) return undefined
  return { ...said.data, isHere }
}

/** A power cut can leave an empty file; its holder is gone with it. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // no holder's words, which is what the caller learns
  }
}

async function pidNamespace(): Promise<string> {
  try {
    return await readlink('/proc/self/ns/pid')
  } catch {
    return 'unknown' // without /proc no process is found by its number either
  }
}
