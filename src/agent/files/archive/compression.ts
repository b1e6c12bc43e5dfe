import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { PassThrough, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import { AgentFailure } from '../../failure.ts'
import { TOOL_PATH } from '../../holder/process/launcher.ts'

/** How the bytes of a tar are written. */
export type Compression = 'none' | 'gz' | 'xz' | 'zst'

/** What a program may take of memory for one archive, whatever the archive asks for. */
const PROGRAMS = {
  xz: {
    package: 'xz-utils',
    pack: ['xz', '--compress', '--stdout', '-T1', '-3'],
    unpack: ['xz', '--decompress', '--stdout', '--memlimit-decompress=128MiB'],
  },
  zst: {
    package: 'zstd',
    pack: ['zstd', '--compress', '--stdout', '--quiet', '-T1', '-3'],
    unpack: ['zstd', '--decompress', '--stdout', '--quiet', '--memory=128MiB'],
  },
} as const

/** The compression that the first bytes of a file show; what is none of them is read as a tar by itself. */
export function compressionOf(first: Buffer): Compression {
  if (first.length >= 2 && first[0] === 0x1f && first[1] === 0x8b) return 'gz'
  if (first.toString('latin1', 0, 6) === '\xfd7zXZ\0') return 'xz'
  return first.toString('latin1', 0, 4) === '\x28\xb5\x2f\xfd' ? 'zst' : 'none'
}

/** Compressed bytes, at the pace of the reader. */
export function compress(content: AsyncIterable<Uint8Array>, how: Compression): AsyncIterable<Buffer> {
  if (how === 'gz') return through(content, createGzip({ level: 6 }))
  return how === 'none' ? asBuffers(content) : byProgram(content, how, 'pack')
}

/** Bytes as they were; throws ARCHIVE_UNSUPPORTED for damaged ones. How many they become is for the reader to bound. */
export function decompress(content: AsyncIterable<Uint8Array>, how: Compression): AsyncIterable<Buffer> {
  if (how === 'gz') return through(content, createGunzip())
  return how === 'none' ? asBuffers(content) : byProgram(content, how, 'unpack')
}

/** What a producer writes, at the pace of the reader; who stops reading ends it. */
export async function* produced(
  produce: (write: (piece: Buffer) => Promise<void>) => Promise<void>,
): AsyncGenerator<Buffer> {
  const pipe = new PassThrough({ highWaterMark: 512 * 1024 })
  const write = async (piece: Buffer): Promise<void> => {
    if (pipe.destroyed) throw new AgentFailure('CANCELLED', 'Nobody reads it any more')
    if (pipe.write(piece)) return
    await new Promise<void>((resolve) => {
      const go = (): void => {
        pipe.off('drain', go)
        pipe.off('close', go)
        resolve()
      }
      pipe.on('drain', go)
      pipe.on('close', go)
    })
  }
  let failure: unknown
  const producing = produce(write).then(
    () => pipe.end(),
    (error: unknown) => {
      failure = error
      pipe.destroy()
    },
  )
  try {
    for await (const piece of pipe) yield piece
  } catch (error) {
    await producing
    throw failure ?? error
  } finally {
    pipe.destroy()
    await producing
  }
  if (failure !== undefined) throw failure
}

async function* asBuffers(content: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const piece of content) yield Buffer.from(piece.buffer, piece.byteOffset, piece.length)
}

async function* through(
  content: AsyncIterable<Uint8Array>,
  step: NodeJS.ReadWriteStream & { destroy(): unknown },
): AsyncGenerator<Buffer> {
  let failure: unknown
  const feeding = pipeline(Readable.from(content, { objectMode: false }), step).catch((error: unknown) => {
    failure = error
  })
  try {
    for await (const piece of step) yield Buffer.from(piece)
    await feeding
  } catch (error) {
    await feeding
    throw damaged(failure ?? error)
  } finally {
    step.destroy()
    await feeding
  }
  if (failure !== undefined) throw damaged(failure)
}

/** By a program of the machine, which has nothing of the agent's environment and no more than its two pipes. */
async function* byProgram(
  content: AsyncIterable<Uint8Array>,
  how: 'xz' | 'zst',
  way: 'pack' | 'unpack',
): AsyncGenerator<Buffer> {
  const [program, ...args] = PROGRAMS[how][way]
  const child: ChildProcessWithoutNullStreams = spawn(program, args, {
    cwd: '/',
    env: { PATH: TOOL_PATH, LC_ALL: 'C' },
  })
  let said = ''
  child.stderr.setEncoding('latin1').on('data', (text: string) => {
    if (said.length < 1000) said += text
  })
  const ended = new Promise<Error | number>((resolve) => {
    child.once('error', resolve)
    child.once('close', (code) => resolve(code ?? 1))
  })
  let failure: unknown
  const feeding = pipeline(Readable.from(content, { objectMode: false }), child.stdin).catch((error: unknown) => {
    failure = error
  })
  try {
    for await (const piece of child.stdout) yield Buffer.from(piece)
    const end = await ended
    if (end instanceof Error) {
      const missing = `The node lacks the program ${program}; install the package ${PROGRAMS[how].package} there`
      throw new AgentFailure('ARCHIVE_UNSUPPORTED', missing, { cause: end })
    }
    await feeding
    if (failure instanceof AgentFailure) throw failure
    if (end !== 0) throw damaged(new Error(said.trim().split('\n').at(-1) ?? `exit code ${end}`))
    if (failure !== undefined) throw failure
  } finally {
    child.kill('SIGKILL')
    await ended
    await feeding
  }
}

function damaged(error: unknown): unknown {
  if (error instanceof AgentFailure) return error
  return new AgentFailure('ARCHIVE_UNSUPPORTED', 'It is an archive whose compression is damaged', { cause: error })
}
