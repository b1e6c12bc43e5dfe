import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { readFile, writeFile } from '../../../shared/api/files.ts'
import type { Client } from '../../../shared/client.ts'
import type { Data } from '../../../shared/kernel/contract.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { beforeNext } from './resume.ts'

const PROGRESS_MS = 500

/** Where a file goes, and what it may replace. */
export interface Wanted {
  readonly serverId: ServerId
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
}

/** `panel files put`. */
export const put: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const path = run.args.required('path')
  const source = run.args.word('file') ?? path.split('/').findLast((name) => name !== '')
  if (source === undefined) throw usage('the path names no file')
  const match = run.args.text('if-match')
  const headers = {
    ...(run.args.flag('if-absent') ? { 'if-none-match': '*' } : {}),
    ...(match === undefined ? {} : { 'if-match': `"${match.replaceAll('"', '')}"` }),
  }
  const wanted = { serverId: id as ServerId, path, headers } // the panel's own id of the server
  const written = source === '-' ? await sendStdin(run, wanted) : await sendFile(run, wanted, source)
  if (run.out.machine) await run.out.value(written)
  else run.notice(`${written.path}: ${written.size} bytes, sha256 ${written.sha256}`)
  return 0
}

/** What the panel says of a written file. */
export type Written = Data<typeof writeFile>

/** Sends what stdin says. */
export async function sendStdin(run: Run, { serverId, path, headers }: Wanted): Promise<Written> {
  const client = await run.client()
  const content = shown(run, run.terminal.stdin, { offset: 0, size: null })
  const body = { contentType: 'application/octet-stream', length: null, content, cancel: () => {} }
  return await client.call(writeFile, { params: { serverId }, query: { path }, body }, { headers, signal: run.signal })
}

/** Sends a local file, over as many connections as it takes. A name may be bytes that are no UTF-8. */
export async function sendFile(run: Run, wanted: Wanted, source: string | Buffer): Promise<Written> {
  const { serverId, path, headers } = wanted
  const client = await run.client()
  const { size, sha256 } = await digest(source)
  // An answer to HEAD has no body: why an upload is refused is for the upload itself to say.
  let offset = await offsetOf(client, wanted, sha256).catch(() => 0)
  for (let attempt = 0; ; attempt++) {
    try {
      const content = shown(run, unchanged(source, { offset, size }), { offset, size })
      const body = { contentType: 'application/octet-stream', length: size - offset, content, cancel: () => {} }
      const query = { path, sha256, offset }
      return await client.call(writeFile, { params: { serverId }, query, body }, { headers, signal: run.signal })
    } catch (error) {
      const changed = changeIn(error)
      if (changed !== undefined) throw changed
      // CONFLICT: the node has not yet seen the end of the attempt before, or has less of it than was thought.
      await beforeNext(run, error, { attempt, at: offset, passing: ['CONFLICT'] })
      const there = await offsetOf(client, wanted, sha256).catch(() => offset)
      if (there > offset) attempt = 0
      offset = there
    }
  }
}

/** How much of an upload of this very file is there from an earlier run. */
async function offsetOf(client: Client, { serverId, path }: Wanted, upload: string): Promise<number> {
  const { headers } = await client.stream(readFile, { params: { serverId }, query: { path, upload } }, { head: true })
  return Number(headers.get('upload-offset') ?? 0)
}

/** Reads a file once for its hash: what arrives is compared with it, and a broken upload is known by it. */
async function digest(source: string | Buffer): Promise<{ size: number; sha256: string }> {
  try {
    const facts = await stat(source)
    if (!facts.isFile()) throw new Error('it is no regular file')
    const hash = createHash('sha256')
    let size = 0
    for await (const piece of createReadStream(source)) {
      hash.update(piece)
      size += piece.length
    }
    return { size, sha256: hash.digest('hex') }
  } catch (cause) {
    throw new CliFailure('FILE_UNREADABLE', `${source} cannot be read`, { cause })
  }
}

async function* shown(
  run: Run,
  content: AsyncIterable<Uint8Array | string>,
  { offset, size }: { readonly offset: number; readonly size: number | null },
): AsyncGenerator<Uint8Array> {
  const shows = run.terminal.stderr.isTTY === true && !run.args.flag('quiet')
  let sent = offset
  let shownAt = run.clock.monotonicMs()
  for await (const piece of content) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    yield bytes
    sent += bytes.length
    if (!shows || run.clock.monotonicMs() - shownAt < PROGRESS_MS) continue
    shownAt = run.clock.monotonicMs()
    const share = size === null || size === 0 ? '' : ` of ${size} bytes, ${Math.floor((sent / size) * 100)} %`
    run.terminal.progress(`${sent}${share} `)
  }
  if (shows) run.terminal.progress('')
}

/** A file has changed since it was read for its hash. */
class Changed extends CliFailure {
  constructor(source: string | Buffer) {
    super('OPERATION_FAILED', `${source} was changed while it was sent; the file of the server stays as it was`, {
      hint: 'run it again',
    })
  }
}

async function* unchanged(
  source: string | Buffer,
  { offset, size }: { readonly offset: number; readonly size: number },
): AsyncGenerator<Uint8Array> {
  if (offset === size) return
  let at = offset
  for await (const piece of createReadStream(source, { start: offset, end: size - 1 })) {
    const bytes: Uint8Array = piece // without an encoding
    at += bytes.length
    yield bytes
  }
  if (at < size) throw new Changed(source)
}

/** What a body throws arrives as the cause of a failed request. */
function changeIn(error: unknown): Changed | undefined {
  for (let cause = error; cause instanceof Error; cause = cause.cause) if (cause instanceof Changed) return cause
  return undefined
}
