import { createHash, type Hash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises'
import * as api from '../../../shared/api/backups.ts'
import type { Endpoint } from '../../../shared/kernel/contract.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { byteSize } from '../../kit/output/byte-size.ts'
import { call } from '../../kit/resource/actions.ts'
import { saveFile, takeName, writing } from '../../kit/resource/download.ts'
import type { Run } from '../../kit/run.ts'
import { suggestedName } from '../files/local-name.ts'
import { beforeNext, Incomplete } from '../files/resume.ts'
import { type Address, address } from './address.ts'

const ENDS = { gzip: 'tar.gz', zstd: 'tar.zst', none: 'tar' } as const
const SHOW_MS = 500

/** `panel backups download`. */
export const downloadBackup: Action = async (run) => {
  const [path, file, database] = ['path', 'file', 'database'].map((name) => run.args.text(name))
  const compression = run.args.text('compression')
  if ([path, file, database].filter((one) => one !== undefined).length > 1) {
    throw usage('--path, --file and --database exclude each other')
  }
  const { params } = await address(run)
  if (file !== undefined || database !== undefined) {
    if (compression !== undefined || run.args.flag('resume')) throw usage('--compression and --resume are for archives')
    const query = file === undefined ? { database } : { path: file }
    const name = file?.split('/').findLast((part) => part !== '') ?? `${database}.sql`
    const ask = async () => (await stream(run, api.readBackupFile, { params, query })).content
    return await saveFile(run, ask, run.args.text('out') ?? name)
  }
  const backup = await call(run, api.getBackup, { params })
  const packed = compression ?? (backup.kind === 'archive' ? backup.compression : 'gzip')
  const out = run.args.text('out') ?? suggestedName(`${backup.name}.${ENDS[packed as keyof typeof ENDS] ?? 'tar'}`)
  const query = { compression, path }
  const isWhole = path === undefined && backup.kind === 'archive' && packed === backup.compression
  if (!run.args.flag('resume')) {
    return await saveFile(
      run,
      async () => (isWhole ? whole(run, { params, query }, backup) : one(run, { params, query })),
      out,
    )
  }
  if (out === '-') throw usage('--resume is for a file, not for stdout')
  if (!isWhole) {
    throw usage(
      '--resume is for an archive as it lies in its store',
      'leave out --path and --compression; an increment is packed anew',
    )
  }
  await resumed(run, { params, query, backup, out })
}

interface Asked {
  readonly params: Address['params']
  readonly query: Record<string, unknown>
}

async function stream(run: Run, endpoint: Endpoint, { params, query }: Asked, headers: Record<string, string> = {}) {
  const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined))
  const client = await run.client()
  return await client.stream<Endpoint>(endpoint, { params, query: given }, { headers, signal: run.signal })
}

async function* one(run: Run, asked: Asked): AsyncGenerator<Uint8Array> {
  yield* (await stream(run, api.downloadBackup, asked)).content
}

/** An archive as it lies, over as many connections as it takes; its hash is compared at the end. */
async function* whole(
  run: Run,
  asked: Asked,
  backup: api.Backup,
  begun: { readonly at: number; readonly hash: Hash } = { at: 0, hash: createHash('sha256') },
): AsyncGenerator<Uint8Array> {
  const { hash } = begun
  const { checksum } = backup
  let { at } = begun
  let size: number | undefined
  for (let attempt = 0; at !== size; attempt++) {
    try {
      const headers: Record<string, string> = at === 0 ? {} : { range: `bytes=${at}-`, 'if-range': `"${checksum}"` }
      const answer = await stream(run, api.downloadBackup, asked, headers)
      if (at > 0 && answer.status !== 206) throw changed()
      size = sizeOf(answer.headers)
      for await (const piece of answer.content) {
        at += piece.length
        attempt = 0
        hash.update(piece)
        yield piece
      }
      if (size === undefined) return // nothing to compare it with
      if (at !== size) throw new Incomplete()
    } catch (error) {
      // Cut when nothing was left, or all of it was there already.
      if (at === size || isBehindEnd(error)) break
      await beforeNext(run, error, { attempt, at })
    }
  }
  if (checksum !== null && hash.digest('hex') !== checksum) {
    throw new CliFailure('OPERATION_FAILED', 'the bytes are not those of the backup: their hash differs', {
      hint: 'panel backups verify <server> <backup>',
    })
  }
}

/** Of the whole, also where an answer is the rest of it. None: the panel leaves out what the caller must not have, and packs it anew. */
function sizeOf(headers: { get(name: string): string | null }): number | undefined {
  const size = headers.get('content-range')?.split('/')[1] ?? headers.get('content-length')
  return size == null ? undefined : Number(size)
}

function isBehindEnd(error: unknown): boolean {
  return error instanceof PanelError && error.code === 'RANGE_NOT_SATISFIABLE'
}

function changed(): CliFailure {
  return new CliFailure('OPERATION_FAILED', 'the backup is another one than before', {
    hint: 'run it without --resume',
  })
}

/** Goes on with what an earlier run has left in `<out>.partial`; the file appears when all of it is there and its hash is right. */
async function resumed(
  run: Run,
  { params, query, backup, out }: Asked & { readonly backup: api.Backup; readonly out: string },
): Promise<void> {
  if ((await stat(out).catch(absent)) !== undefined && !run.args.flag('force')) {
    throw new CliFailure('FILE_UNREADABLE', `${out} is there already`, { hint: '--force replaces it' })
  }
  const part = `${out}.partial`
  const { at, hash } = await hashed(part, backup.storedBytes)
  const file = await opened(part, at)
  try {
    if (at > 0) run.notice(`going on at ${byteSize(at)}`)
    await write(
      run,
      { file, part },
      {
        content: whole(run, { params, query }, backup, { at, hash }),
        at,
        total: backup.storedBytes,
      },
    )
    await writing(part, () => file.sync())
  } catch (error) {
    await file.close()
    // Bytes that are wrong are of no use to the next run.
    if (error instanceof CliFailure && error.code === 'OPERATION_FAILED') await rm(part, { force: true })
    throw error
  }
  await file.close()
  await writing(out, async () => {
    if (run.args.flag('force')) return await rename(part, out)
    await takeName(part, out)
    await rm(part, { force: true })
  })
  run.notice(`${out}: ${byteSize(backup.storedBytes ?? 0)}`)
}

/** What is there already, as long as it can be the beginning of the backup. */
async function hashed(part: string, size: number | null): Promise<{ at: number; hash: Hash }> {
  const there = await stat(part).catch(absent)
  const hash = createHash('sha256')
  if (there === undefined || !there.isFile() || size === null || there.size > size) return { at: 0, hash }
  for await (const piece of createReadStream(part)) hash.update(piece as Buffer)
  return { at: there.size, hash }
}

async function opened(part: string, at: number): Promise<FileHandle> {
  try {
    const file = await open(part, at === 0 ? 'w' : 'a', 0o600)
    return file
  } catch (cause) {
    const code = cause instanceof Error && 'code' in cause ? String(cause.code) : 'unknown error'
    throw new CliFailure('FILE_UNREADABLE', `${part} cannot be written (${code})`, {
      hint: 'write it elsewhere',
      cause,
    })
  }
}

async function write(
  run: Run,
  { file, part }: { readonly file: FileHandle; readonly part: string },
  {
    content,
    at,
    total,
  }: { readonly content: AsyncIterable<Uint8Array>; readonly at: number; readonly total: number | null },
): Promise<void> {
  const shows = run.terminal.stderr.isTTY === true && !run.args.flag('quiet')
  let done = at
  let shownAt = run.clock.monotonicMs()
  for await (const piece of content) {
    if (run.signal.aborted)
      throw new CliFailure('INTERRUPTED', 'the download was interrupted; --resume goes on with it')
    await writing(part, () => file.writeFile(piece))
    done += piece.length
    if (!shows || run.clock.monotonicMs() - shownAt < SHOW_MS) continue
    shownAt = run.clock.monotonicMs()
    run.terminal.progress(`${byteSize(done)}${total === null ? '' : ` of ${byteSize(total)}`} `)
  }
  if (shows) run.terminal.progress('')
}

function absent(error: unknown): undefined {
  if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
  throw error
}
