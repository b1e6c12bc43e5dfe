import type { ObjectStore, UploadedPart } from './object-store.ts'
import { StoreFailure } from './store-failure.ts'

/** What goes into one request; more is sent in parts. */
const PART_BYTES = 8 * 1024 * 1024
const MOST_PARTS = 10_000
/** How often in a row a download may be cut off without a byte in between. */
const MOST_CUTS = 5

/** Stores bytes of a known length; more than one part of them is in memory at no time. What fails leaves nothing behind. */
export async function storeBytes(
  store: ObjectStore,
  key: string,
  { bytes, content }: { readonly bytes: number; readonly content: AsyncIterable<Uint8Array> },
  { signal, progress }: { readonly signal?: AbortSignal; readonly progress?: (bytes: number) => void } = {},
): Promise<void> {
  const partBytes = Math.max(PART_BYTES, Math.ceil(bytes / MOST_PARTS))
  const parts = inParts(content, partBytes)
  if (bytes <= partBytes) {
    const only = await parts.next()
    await store.put(key, only.done === true ? new Uint8Array(0) : only.value, signal)
    progress?.(bytes)
    return
  }
  const upload = { key, uploadId: await store.begin(key, signal) }
  try {
    const done: UploadedPart[] = []
    let sent = 0
    for await (const body of parts) {
      done.push(await store.part({ ...upload, number: done.length + 1 }, body, signal))
      sent += body.length
      progress?.(sent)
    }
    if (sent !== bytes) throw new Error(`${sent} bytes came where ${bytes} were announced`)
    await store.complete(upload, done, signal)
  } catch (error) {
    // Also when it was cancelled: what is left of an upload costs money until somebody finds it.
    await store.abort(upload).catch(() => undefined)
    throw error
  }
}

/** The bytes of an object; a connection that is cut off is taken up where it was. Fails when they are fewer than the object has. */
export async function* readBytes(store: ObjectStore, key: string, signal?: AbortSignal): AsyncGenerator<Uint8Array> {
  const total = await store.head(key, signal)
  if (total === null) throw new StoreFailure('missing', `the store has no ${key}`)
  let offset = 0
  let cuts = 0
  while (offset < total) {
    const { content } = await store.get(key, { offset, length: total - offset }, signal)
    try {
      for await (const piece of content) {
        offset += piece.length
        if (offset > total) throw new StoreFailure('rejected', `the store delivers more of ${key} than it has`)
        cuts = 0
        yield piece
      }
    } catch (error) {
      signal?.throwIfAborted()
      if (error instanceof StoreFailure) throw error
    } finally {
      content.destroy()
    }
    cuts += 1
    if (offset < total && cuts >= MOST_CUTS) {
      throw new StoreFailure('connection', `the store was cut off ${cuts} times while ${key} was read`)
    }
  }
}

async function* inParts(content: AsyncIterable<Uint8Array>, partBytes: number): AsyncGenerator<Uint8Array> {
  let held: Uint8Array[] = []
  let bytes = 0
  for await (let piece of content) {
    while (bytes + piece.length >= partBytes) {
      const rest = partBytes - bytes
      yield Buffer.concat([...held, piece.subarray(0, rest)])
      piece = piece.subarray(rest)
      held = []
      bytes = 0
    }
    if (piece.length > 0) {
      held.push(piece)
      bytes += piece.length
    }
  }
  if (bytes > 0) yield Buffer.concat(held)
}
