import { type FileHandle, open, rename, rm } from 'node:fs/promises'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import type { Action } from '../command.ts'
import { CliFailure } from '../failure.ts'
import type { Run } from '../run.ts'
import { fieldsOf } from './fields.ts'

const PROGRESS_MS = 500

/** Fetches what an endpoint answers as a file, as {@link saveFile} does. */
export function downloadAction<E extends Endpoint>(
  endpoint: E,
  more: (run: Run) => Promise<Record<string, unknown>> = async () => ({}),
): Action {
  return async (run) => {
    const query = { ...(await fieldsOf(run)), ...(await more(run)) }
    await saveFile(run, async () => (await run.client()).file<Endpoint>(endpoint, { params: {}, query }))
  }
}

/**
 * Writes what is fetched to stdout or to `out` (by default `--out`), which appears whole or not at all: the bytes go to a file beside it that is
 * renamed at the end and removed when the connection breaks.
 */
export async function saveFile(
  run: Run,
  fetch: () => Promise<AsyncIterable<Uint8Array>>,
  out = run.args.text('out'),
): Promise<void> {
  const target = out === undefined || out === '-' ? undefined : await begin(out, run.args.flag('force'))
  try {
    const bytes = await fetch()
    const size = await copy(run, { bytes, out }, (part) =>
      target === undefined ? run.terminal.writeBytes(part) : target.write(part),
    )
    await target?.finish()
    if (out !== undefined && target !== undefined) run.notice(`${out}: ${humanBytes(size)}`)
  } catch (error) {
    await target?.abandon()
    throw error instanceof TypeError && error.message === 'terminated' ? brokenOff(error) : error
  }
}

interface Target {
  write(part: Uint8Array): Promise<void>
  finish(): Promise<void>
  abandon(): Promise<void>
}

async function begin(out: string, force: boolean): Promise<Target> {
  const part = `${out}.part`
  if (!force) await (await opened(out, 'wx', '--force replaces it')).close()
  const file = await opened(part, 'w', 'choose another --out').catch(async (error: unknown) => {
    if (!force) await rm(out, { force: true })
    throw error
  })
  return {
    write: async (bytes) => {
      await file.writeFile(bytes)
    },
    finish: async () => {
      await file.sync()
      await file.close()
      await rename(part, out)
    },
    abandon: async () => {
      await file.close()
      await rm(part, { force: true })
      if (!force) await rm(out, { force: true }) // only our own reservation of the name
    },
  }
}

async function opened(path: string, flags: string, hint: string): Promise<FileHandle> {
  try {
    return await open(path, flags, 0o600)
  } catch (cause) {
    const reason =
      cause instanceof Error && 'code' in cause && cause.code === 'EEXIST' ? 'is there already' : 'cannot be written'
    throw new CliFailure('FILE_UNREADABLE', `${path} ${reason}`, { hint, cause })
  }
}

async function copy(
  run: Run,
  { bytes, out }: { readonly bytes: AsyncIterable<Uint8Array>; readonly out: string | undefined },
  take: (part: Uint8Array) => Promise<void>,
): Promise<number> {
  const { stderr } = run.terminal
  const shows = stderr.isTTY === true && !run.args.flag('quiet') && out !== undefined
  let size = 0
  let shownAt = run.clock.monotonicMs()
  for await (const part of bytes) {
    if (run.signal.aborted) throw new CliFailure('INTERRUPTED', 'the download was interrupted')
    await take(part)
    size += part.length
    if (!shows || run.clock.monotonicMs() - shownAt < PROGRESS_MS) continue
    shownAt = run.clock.monotonicMs()
    run.terminal.progress(`${humanBytes(size)} so far `)
  }
  if (shows) run.terminal.progress('')
  return size
}

function brokenOff(cause: unknown): CliFailure {
  return new CliFailure('UNREACHABLE', 'the connection broke off in the middle; nothing complete was written', {
    hint: 'run it again',
    cause,
  })
}

function humanBytes(bytes: number): string {
  const steps = ['B', 'KiB', 'MiB', 'GiB']
  const step = Math.min(steps.length - 1, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${(bytes / 1024 ** step).toFixed(step === 0 ? 0 : 1)} ${steps[step]}`
}
