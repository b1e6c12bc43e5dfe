/** What an object store answers about one object; keys are relative to the store's prefix. */
export interface StoredObject {
  readonly key: string
  readonly bytes: number
}

/** One page of objects by key; `next` names where it goes on, `null` at the end. */
export interface ObjectPage {
  readonly objects: readonly StoredObject[]
  readonly next: string | null
}

/** One part of an upload that the store has taken. */
export interface UploadedPart {
  readonly number: number
  readonly etag: string
}

/** An upload that was begun and neither completed nor aborted. */
export interface UnfinishedUpload {
  readonly key: string
  readonly uploadId: string
  readonly startedAt: string | null
}

/** A request that whoever holds it may make without credentials until it expires. */
export interface SignedRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
}

/** What a signed request is for. `bytes` bind it to a body of exactly this length. */
export type SignedFor =
  | { readonly op: 'put'; readonly key: string; readonly bytes: number }
  | { readonly op: 'get'; readonly key: string }
  | {
      readonly op: 'part'
      readonly key: string
      readonly uploadId: string
      readonly number: number
      readonly bytes: number
    }

/**
 * Objects below one prefix of one bucket. Every call is tried again after refusals that pass (5xx, SlowDown, connections that
 * are reset); what then still fails is BACKUP_STORE_FAILED with a sentence that says what to do, and `meta.reason` for programs.
 */
export interface ObjectStore {
  put(key: string, body: Uint8Array, signal?: AbortSignal): Promise<{ readonly etag: string }>
  /** The bytes from `offset` on, `length` of them or all; they must be read or cancelled. NOT_FOUND where there is none. */
  get(
    key: string,
    range?: { readonly offset: number; readonly length: number | null },
    signal?: AbortSignal,
  ): Promise<{ readonly bytes: number; readonly content: AsyncIterable<Uint8Array> & { destroy(): unknown } }>
  /** The size; `null` where there is no such object. */
  head(key: string, signal?: AbortSignal): Promise<number | null>
  list(
    options: { readonly prefix?: string; readonly after?: string | null; readonly limit?: number },
    signal?: AbortSignal,
  ): Promise<ObjectPage>
  /** Objects that are not there are no failure. */
  delete(keys: readonly string[], signal?: AbortSignal): Promise<void>
  begin(key: string, signal?: AbortSignal): Promise<string>
  part(
    upload: { readonly key: string; readonly uploadId: string; readonly number: number },
    body: Uint8Array,
    signal?: AbortSignal,
  ): Promise<UploadedPart>
  complete(
    upload: { readonly key: string; readonly uploadId: string },
    parts: readonly UploadedPart[],
    signal?: AbortSignal,
  ): Promise<void>
  /** An upload that is not there any more is no failure. */
  abort(upload: { readonly key: string; readonly uploadId: string }, signal?: AbortSignal): Promise<void>
  unfinished(prefix?: string, signal?: AbortSignal): Promise<UnfinishedUpload[]>
  /** Good for a quarter of an hour. */
  sign(wanted: SignedFor): Promise<SignedRequest>
  close(): Promise<void>
}
