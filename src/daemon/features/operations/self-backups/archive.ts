import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, type WriteStream } from 'node:fs'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadEntry } from 'tar'
import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { IsoTime } from '../../../../shared/kernel/time.ts'
import { SealedKey } from './sealed-key.ts'

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/)

/** What a backup says of itself: the first entry of its archive. */
export const Manifest = z.object({
  format: z.literal(1),
  id: z.string().max(64),
  createdAt: IsoTime,
  panelVersion: z.string().max(100),
  schemaVersion: z.int().min(1),
  database: z.object({ bytes: z.int().min(1), sha256: Sha256 }),
  /** Of the credential key by which the secrets in the database are sealed; `null`: the daemon had none. */
  keyFingerprint: z.string().max(64).nullable(),
  includesKey: z.boolean(),
})
export type Manifest = z.infer<typeof Manifest>

/** A backup that was unpacked and is what its manifest says. */
export interface Unpacked {
  readonly manifest: Manifest
  /** The database file. */
  readonly database: string
  readonly key: SealedKey | undefined
  /** Of the archive. */
  readonly bytes: number
  readonly sha256: string
}

/** The entries of an archive, in their order: a gzipped tar that any program reads. */
const NAMES = { manifest: 'manifest.json', database: 'panel.db', key: 'credential-key.json' } as const
const SMALL_BYTES = 64 * 1024

/** Where in its folder the database stands before {@link packBackup} and after {@link unpackBackup}. */
export function databaseIn(folder: string): string {
  return join(folder, NAMES.database)
}

/** Packs the database that stands in `folder` into the file `to`. Answers size and hash of the archive. */
export async function packBackup(
  folder: string,
  to: string,
  about: Omit<Manifest, 'format' | 'database' | 'includesKey'> & { readonly key: SealedKey | undefined },
  signal?: AbortSignal,
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const { key, ...rest } = about
  const database = { bytes: (await stat(databaseIn(folder))).size, sha256: await hashOf(databaseIn(folder), signal) }
  const manifest: Manifest = { format: 1, ...rest, database, includesKey: key !== undefined }
  await writeFile(join(folder, NAMES.manifest), `${JSON.stringify(manifest, null, 2)}\n`, { mode: 0o600 })
  if (key !== undefined) await writeFile(join(folder, NAMES.key), `${JSON.stringify(key)}\n`, { mode: 0o600 })
  const names = [NAMES.manifest, ...(key === undefined ? [] : [NAMES.key]), NAMES.database]
  const { create } = await import('tar')
  const hash = hashing()
  const out = createWriteStream(to, { flags: 'wx', mode: 0o600, flush: true })
  await pipeline(create({ cwd: folder, gzip: { level: 6 }, portable: true }, names), hash, out, {
    ...withSignal(signal),
  })
  return { bytes: hash.bytes(), sha256: hash.sha256() }
}

/**
 * Unpacks an archive into a folder of its own and compares everything with the manifest. What is no backup of a panel, is cut off or
 * was changed fails with VALIDATION_ERROR; nothing but the known entries is written, and never more of them than was announced.
 */
export async function unpackBackup(
  content: AsyncIterable<Uint8Array>,
  folder: string,
  signal?: AbortSignal,
): Promise<Unpacked> {
  const { Parser } = await import('tar')
  const whole = hashing()
  const written: Promise<void>[] = []
  const files: WriteStream[] = []
  const seen = new Set<string>()
  const parser = new Parser({ strict: true })
  let failure: unknown
  const fail = (error: unknown): void => {
    failure ??= error
    parser.abort(error instanceof Error ? error : new Error(String(error)))
  }
  parser.on('entry', (entry: ReadEntry) => {
    const problem = problemOf(entry, seen)
    if (problem !== undefined) return fail(refused(problem))
    seen.add(entry.path)
    const file = createWriteStream(join(folder, entry.path), { flags: 'wx', mode: 0o600, flush: true })
    files.push(file)
    const done = new Promise<void>((resolve, reject) => {
      file.once('close', resolve)
      file.once('error', reject)
    })
    done.catch(fail)
    written.push(done)
    entry.pipe(file)
  })
  const ended = new Promise<void>((resolve, reject) => {
    parser.once('end', resolve)
    parser.on('error', reject) // it may have more to say, which nobody need hear
  })
  ended.catch(() => undefined) // whoever waits for it below may have failed before
  try {
    for await (const piece of content) {
      signal?.throwIfAborted()
      whole.count(piece)
      if (failure !== undefined) throw failure
      if (!parser.write(piece)) await Promise.race([once(parser, 'drain'), ended])
    }
    parser.end()
    await ended
    await Promise.all(written)
  } catch (error) {
    for (const file of files) file.destroy()
    if (failure !== undefined) throw failure
    signal?.throwIfAborted()
    if (error instanceof PanelError || (error instanceof Error && SYSTEM.test(String(Reflect.get(error, 'code')))))
      throw error
    throw refused('it is cut off, or no gzipped tar', error)
  }
  if (failure !== undefined) throw failure
  return compare(folder, { bytes: whole.bytes(), sha256: whole.sha256(), seen }, signal)
}

/** Errors of the machine, which say nothing of the archive. */
const SYSTEM = /^(ENOSPC|EDQUOT|EACCES|EPERM|EROFS|EIO|EMFILE|BACKUP_STORE_FAILED)$/

function problemOf({ type, path, size }: ReadEntry, seen: ReadonlySet<string>): string | undefined {
  const known = Object.values(NAMES).some((name) => name === path)
  if (type !== 'File' || !known) return 'there are other things in it than a panel packs'
  if (seen.has(path)) return `it has ${path} twice`
  if (seen.size === 0 && path !== NAMES.manifest) return 'it does not begin with its manifest'
  return path !== NAMES.database && size > SMALL_BYTES ? `its ${path} is too large` : undefined
}

async function compare(
  folder: string,
  { bytes, sha256, seen }: { readonly bytes: number; readonly sha256: string; readonly seen: ReadonlySet<string> },
  signal: AbortSignal | undefined,
): Promise<Unpacked> {
  for (const name of [NAMES.manifest, NAMES.database]) if (!seen.has(name)) throw refused(`it has no ${name}`)
  const manifest = await readJson(Manifest, join(folder, NAMES.manifest))
  const database = databaseIn(folder)
  const found = { bytes: (await stat(database)).size, sha256: await hashOf(database, signal) }
  if (found.bytes !== manifest.database.bytes || found.sha256 !== manifest.database.sha256) {
    throw refused('its database is not the one that its manifest names')
  }
  if (manifest.includesKey !== seen.has(NAMES.key)) throw refused('its manifest does not say what is in it')
  const key = manifest.includesKey ? await readJson(SealedKey, join(folder, NAMES.key)) : undefined
  return { manifest, database, key, bytes, sha256 }
}

async function readJson<T>(schema: z.ZodType<T>, file: string): Promise<T> {
  let value: unknown
  try {
    value = JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    throw refused('its manifest cannot be read', error)
  }
  if (typeof value === 'object' && value !== null && Number(Reflect.get(value, 'format')) > 1) {
    throw refused('a newer panel has made it; restore it with that one')
  }
  const parsed = schema.safeParse(value)
  if (parsed.success) return parsed.data
  throw refused('its manifest cannot be read', parsed.error)
}

function refused(why: string, cause?: unknown): PanelError {
  return new PanelError('VALIDATION_ERROR', `This is no good backup of a panel: ${why}`, { cause })
}

/** SHA-256 of a file in hex. */
async function hashOf(file: string, signal: AbortSignal | undefined): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(file, { ...withSignal(signal) })) hash.update(piece as Buffer)
  return hash.digest('hex')
}

function hashing() {
  const hash = createHash('sha256')
  let bytes = 0
  const count = (piece: Uint8Array): void => {
    hash.update(piece)
    bytes += piece.length
  }
  const through = new Transform({
    transform: (piece: Buffer, _, done) => {
      count(piece)
      done(null, piece)
    },
  })
  return Object.assign(through, { count, bytes: () => bytes, sha256: () => hash.digest('hex') })
}

function once(parser: NodeJS.EventEmitter, event: string): Promise<unknown> {
  return new Promise((resolve) => parser.once(event, resolve))
}

function withSignal(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal }
}

/** Removes what {@link packBackup} and {@link unpackBackup} have left in a folder. */
export async function clearFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true })
}
