import { AgentFailure } from '../failure.ts'

/** A part of an object; without `length` to its end. */
export interface ByteRange {
  readonly offset: number
  readonly length?: number
  /** The memory of a piece may be used again for the next one: who asks for that is done with a piece before it takes another. */
  readonly reuses?: boolean
}

/** An object as a list has it. */
export interface StoredObject {
  readonly key: string
  readonly bytes: number
}

/**
 * Where the backups of one server lie. Keys are names with slashes between them ({@link OBJECT_KEY}). An object is there as a whole or
 * not at all: what fails or is cut off while it is written leaves none, and the one before it stays.
 */
export interface ObjectStore {
  /** Writes an object; answers how many bytes it has. Throws NO_SPACE where it does not fit. */
  write(key: string, content: AsyncIterable<Buffer>, signal: AbortSignal): Promise<number>
  /** The bytes of an object, or of a part of it; throws NOT_FOUND. */
  read(key: string, range: ByteRange, signal: AbortSignal): AsyncGenerator<Buffer>
  /** `undefined`: there is none. */
  size(key: string): Promise<number | undefined>
  /** All objects whose keys begin so, in no order. What has another name than a key is passed over. */
  list(prefix: string): AsyncGenerator<StoredObject>
  /** Those that are not there are no failure. */
  remove(keys: readonly string[]): Promise<void>
  /** Removes what writes that were cut off have left; nobody writes meanwhile. */
  sweep(): Promise<void>
  /** What is free; `null` where nobody knows. */
  freeBytes(): Promise<number | null>
}

/** What objects may be called. */
export const OBJECT_KEY = /^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}){0,7}$/

/** A small object as a whole; `undefined` when there is none. Throws CHECKSUM for one that is larger than `most`. */
export async function readSmall(
  store: ObjectStore,
  key: string,
  { most, signal }: { readonly most: number; readonly signal: AbortSignal },
): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of store.read(key, { offset: 0 }, signal)) {
      bytes += part.length
      if (bytes > most) throw damaged(`${key} is larger than it can be`)
      parts.push(part)
    }
  } catch (error) {
    if (error instanceof AgentFailure && error.code === 'NOT_FOUND') return undefined
    throw error
  }
  return Buffer.concat(parts)
}

/** Writes what is in memory. */
export async function writeSmall(store: ObjectStore, key: string, content: Buffer, signal: AbortSignal): Promise<void> {
  await store.write(key, one(content), signal)
}

/** A store does not have what was written into it. */
export function damaged(what: string): AgentFailure {
  return new AgentFailure('CHECKSUM', `The backup is damaged: ${what}`)
}

/** What was stored has gone while a backup was made that needs it. */
export function lost(key: string): AgentFailure {
  return new AgentFailure(
    'STORE_FAILED',
    `The store has lost ${key} while the backup was made; look after it and make the backup again`,
  )
}

/** There is no such object. */
export function noObject(key: string): AgentFailure {
  return new AgentFailure('NOT_FOUND', `The store has no ${key}`)
}

async function* one(content: Buffer): AsyncGenerator<Buffer> {
  yield content
}
