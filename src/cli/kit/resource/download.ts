import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { link, lstat, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import type { Action } from '../command.ts'
import { CliFailure } from '../failure.ts'
import { byteSize } from '../output/byte-size.ts'
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
 * Writes what is fetched to stdout or to `out` (by default `--out`), which appears whole or not at all: the bytes go to a hidden file
 * beside it, which gets the name at the end and is removed when something fails. `--force` replaces a file and nothing else: neither
 * a folder nor a device.
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
    if (out !== undefined && target !== undefined) run.notice(`${out}: ${byteSize(size)}`)
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
  const there = await statOf(out)
  if (there?.isDirectory() === true) throw unwritable(out, 'is a folder', 'name the file in it')
  if (there !== undefined && !there.isFile() && !there.isSymbolicLink()) {
    throw unwritable(out, 'is no regular file', '- writes to stdout')
  }
  if (there !== undefined && !force) throw unwritable(out, 'is there already', '--force replaces it')
  const part = join(dirname(out), `.panel-${randomBytes(8).toString('hex')}.part`)
  const file = await writing(out, () => open(part, 'wx', 0o600))
  const abandon = async (): Promise<void> => {
    await file.close()
    await rm(part, { force: true })
  }
  return {
    write: (bytes) => writing(out, () => file.writeFile(bytes)),
    finish: async () => {
      await writing(out, () => file.sync())
      await writing(out, () => (force ? rename(part, out) : takeName(part, out)))
      await abandon()
    },
    abandon,
  }
}

/** Gives a file a name that nobody has; where the file system knows no links it is looked at first. */
export async function takeName(part: string, out: string): Promise<void> {
  try {
    await link(part, out)
  } catch (error) {
    const code = codeOf(error)
    const knowsLinks = code !== 'EPERM' && code !== 'ENOTSUP' && code !== 'EOPNOTSUPP' && code !== 'ENOSYS'
    if (knowsLinks || (await statOf(out)) !== undefined) throw error
    await rename(part, out)
  }
}

async function statOf(path: string): Promise<Stats | undefined> {
  try {
    return await lstat(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw failureOf(path, error)
  }
}

/** Does something with the file `out`; a failure names it, with what to do. */
export async function writing<T>(out: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw failureOf(out, error)
  }
}

function failureOf(out: string, cause: unknown): CliFailure {
  const code = codeOf(cause)
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const hint = 'free some space, or write it elsewhere'
    return new CliFailure('HOST_PRECONDITION', `${out} cannot be written: the disk is full`, { hint, cause })
  }
  if (code === 'EEXIST') return unwritable(out, 'is there already', '--force replaces it', cause)
  return unwritable(out, `cannot be written (${code ?? 'unknown error'})`, 'write it elsewhere', cause)
}

function unwritable(out: string, why: string, hint: string, cause?: unknown): CliFailure {
  return new CliFailure('FILE_UNREADABLE', `${out} ${why}`, { hint, cause })
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
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
    run.terminal.progress(`${byteSize(size)} so far `)
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
