import { once } from 'node:events'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { folderAbove } from '../../shared/platform/program-folder.ts'
import type { ConfigFile } from '../../shared/protocol/config-files.ts'
import { AgentFailure } from '../failure.ts'
import { makeFoldersOf } from '../files/place.ts'
import { openFile, readRange, writeFile } from '../files/server-file.ts'
import { errorText } from '../logger.ts'
import { ConfigFileProblem, MOST_CONFIG_BYTES } from './config-file-problem.ts'
import type { ConfigAnswer, ConfigJob } from './config-thread.ts'

/** A larger file is changed in a thread of its own: what a game writes can make parsing slow. */
const INLINE_CHARACTERS = 16 * 1024
/** So is one whose expressions have more to do, in their steps times its characters: about 50 ms. */
const INLINE_WORK = 2_000_000
/** What compiling one step costs, in characters that it could look at. */
const COMPILING = 150
const THREAD_MS = 20_000
const THREAD_MEMORY = { maxOldGenerationSizeMb: 1024 } as const
const THREAD = join('src', 'agent', 'config-files', 'config-thread.js')

/** What files are brought up to date with. */
export interface UpdateOptions {
  /** Values of placeholders. */
  readonly known: Readonly<Record<string, string>>
  /** How many bytes more the server may have on its disk. */
  readonly roomBytes: number
  /** Milliseconds since the epoch. */
  readonly nowMs: number
  /** Runs the threads for large files one after the other: each may take up to its limit of memory. */
  readonly threads: { add<T>(task: () => Promise<T>): Promise<T> }
}

/**
 * Brings files below `root` up to date, one after the other; a file that is as it should be is not written. Rejects with an
 * AgentFailure that names the file and says what is wrong with it.
 */
export async function updateConfigFiles(
  root: string,
  files: readonly ConfigFile[],
  options: UpdateOptions,
): Promise<void> {
  for (const file of files) {
    try {
      await update(root, file, options)
    } catch (error) {
      if (!(error instanceof AgentFailure) && !(error instanceof ConfigFileProblem)) throw error
      throw new AgentFailure(
        error instanceof AgentFailure ? error.code : 'SPAWN_FAILED',
        `The configuration file ${file.path} ${error.message}`.slice(0, 500),
        { cause: error },
      )
    }
  }
}

async function update(
  root: string,
  file: ConfigFile,
  { known, roomBytes, nowMs, threads }: UpdateOptions,
): Promise<void> {
  const before = await textOf(root, file.path)
  const isSmall = before === null || before.length <= INLINE_CHARACTERS
  // Its parsers are loaded for the first server that has such a file.
  const { configText, stepsOfSettings } = await import('./config-text.ts')
  const isQuick = isSmall && stepsOfSettings(file.set) * ((before?.length ?? 0) + COMPILING) <= INLINE_WORK
  const after = isQuick
    ? configText(file, before, known)
    : await threads.add(() => inThread({ file, text: before, known }))
  if (after === null) return
  if (before === null) await makeFoldersOf(root, file.path)
  const content = Buffer.from(after)
  const upload = { path: file.path, offset: 0, size: content.length, sha256: null, ifMatch: null, ifNone: false }
  const room = roomBytes + (before === null ? 0 : Buffer.byteLength(before))
  await writeFile(root, { ...upload, roomBytes: room, writing: new Set(), nowMs }, whole(content))
}

async function* whole(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content
}

/** `null`: there is no such file. */
async function textOf(root: string, path: string): Promise<string | null> {
  const file = await openFile(root, path).catch((error: unknown) => {
    if (error instanceof AgentFailure && error.code === 'NOT_FOUND') return undefined
    throw error
  })
  if (file === undefined) return null
  try {
    const { size } = file.facts
    if (size > MOST_CONFIG_BYTES) throw new ConfigFileProblem('is larger than 64 MiB')
    const pieces: Uint8Array[] = []
    for await (const piece of readRange(file, { offset: 0, length: size })) pieces.push(Uint8Array.from(piece))
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Buffer.concat(pieces))
  } catch (error) {
    if (error instanceof TypeError) throw new ConfigFileProblem('is no text (UTF-8)')
    throw error
  } finally {
    await file.handle.close()
  }
}

async function inThread(job: ConfigJob): Promise<string | null> {
  const folder = folderAbove(import.meta.dirname, THREAD)
  if (folder === undefined) throw new Error(`the program has no ${THREAD}; build it again`)
  const worker = new Worker(join(folder, THREAD), {
    workerData: job,
    env: {},
    resourceLimits: THREAD_MEMORY,
    execArgv: [],
  })
  try {
    const [answer] = (await once(worker, 'message', { signal: AbortSignal.timeout(THREAD_MS) })) as [ConfigAnswer]
    if ('problem' in answer) throw new ConfigFileProblem(answer.problem)
    return answer.text
  } catch (error) {
    if (error instanceof ConfigFileProblem) throw error
    const isLate = error instanceof Error && error.name === 'AbortError'
    throw new ConfigFileProblem(isLate ? 'takes too long to be changed' : `cannot be changed: ${errorText(error)}`)
  } finally {
    await worker.terminate()
  }
}
