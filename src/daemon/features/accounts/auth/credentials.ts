import { timingSafeEqual } from 'node:crypto'
import { type Clock, type IsoTime, isoTime, now } from '../../../../shared/kernel/time.ts'
import type { Caller, Credentials, Refusal } from '../../../access/caller.ts'
import { heldByRelation } from '../../../access/relations.ts'
import type { Log } from '../../../core/log.ts'
import { parseToken, secretMatches } from '../../../core/secrets.ts'
import type { Db } from '../../../db/db.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import { type CredentialEntry, readApiKey, readSession } from './credential-rows.ts'

/** A session that is kept lives this long after its last use. */
export const SLIDING_SESSION_MS = 7 * 86_400_000
/** A session that is not kept lives this long after the sign-in. */
export const SHORT_SESSION_MS = 86_400_000

const RENEW_AFTER_MS = 86_400_000
const FLUSH_MS = 3_000
const MAX_CACHED = 10_000

/** The credentials of this installation; the owner closes them before the database. */
export interface LiveCredentials extends Credentials {
  /** Writes the counted uses of keys and the renewals of sessions down now. */
  flush(): Promise<void>
  /** Ends the writing loop with a last flush. */
  close(): Promise<void>
}

/**
 * Credentials over the database. Rows are cached until `changed()`; expiry, bans with an end, and what a user
 * holds beside their roles are evaluated at each use. Uses of keys are counted in memory and written every few seconds.
 */
export function createCredentials(deps: { db: Db; clock: Clock; log?: Log }): LiveCredentials {
  return new CredentialCache(deps)
}

class CredentialCache implements LiveCredentials {
  readonly #db: Db
  readonly #clock: Clock
  readonly #log: Log | undefined
  readonly #entries = new Map<string, CredentialEntry>()
  /** The one that was asked for last: most ask again and again, and a map that is written each time leaves a table behind each time. */
  #newest: string | undefined
  readonly #secrets = new WeakMap<CredentialEntry, Buffer>()
  readonly #loading = new Map<string, Promise<CredentialEntry | undefined>>()
  readonly #listeners = new Set<() => void>()
  readonly #closing = new AbortController()
  readonly #loop: Promise<void>
  #uses = new Map<string, { count: number; last: IsoTime }>()
  #renewals = new Map<string, IsoTime>()
  #version = 0

  constructor(deps: { db: Db; clock: Clock; log?: Log }) {
    this.#db = deps.db
    this.#clock = deps.clock
    this.#log = deps.log
    deps.db.changes.onForeign(() => this.changed())
    this.#loop = this.#flushing()
  }

  async resolve(token: string): Promise<Caller | Refusal> {
    await this.#db.changes.looked()
    this.#db.changes.moment() // hears of what others have written
    const parts = parseToken(token)
    if (parts === undefined || parts.kind === 'pnk') return 'unknown'
    const entry = await this.#entry(parts.id)
    if (entry === undefined || !this.#isSecret(parts.secret, entry)) return 'unknown'
    const caller = await this.#validate(entry)
    if (typeof caller === 'string') return caller
    if (caller.kind === 'apiKey') this.#count(caller.credentialId)
    return entry.sliding ? this.#renewed(entry, caller) : caller
  }

  async recheck(caller: Caller): Promise<Caller | Refusal> {
    const entry = await this.#entry(caller.credentialId)
    return entry === undefined ? 'unknown' : this.#validate(entry)
  }

  changed(): void {
    this.#version += 1
    this.#entries.clear()
    this.#loading.clear()
    for (const listener of this.#listeners) listener()
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  async flush(): Promise<void> {
    const uses = this.#uses
    const renewals = this.#renewals
    if (uses.size === 0 && renewals.size === 0) return
    this.#uses = new Map()
    this.#renewals = new Map()
    try {
      await this.#write(uses, renewals)
    } catch (error) {
      for (const [id, use] of uses) this.#count(id, use)
      for (const [id, expiresAt] of renewals) if (!this.#renewals.has(id)) this.#renewals.set(id, expiresAt)
      throw error
    }
  }

  async close(): Promise<void> {
    this.#closing.abort()
    await this.#loop
    await this.flush().catch((error: unknown) => {
      if (!isStorageFailure(error)) throw error
      this.#log?.warn({ err: error }, 'the last uses of credentials could not be written and are not counted')
    })
  }

  async #entry(id: string): Promise<CredentialEntry | undefined> {
    const known = this.#entries.get(id)
    if (known !== undefined) {
      if (id === this.#newest) return known
      this.#entries.delete(id) // and back at the end: the first of the map is the one unused for longest
      this.#entries.set(id, known)
      this.#newest = id
      return known
    }
    const loading = this.#loading.get(id) ?? this.#load(id)
    this.#loading.set(id, loading)
    return loading
  }

  async #load(id: string): Promise<CredentialEntry | undefined> {
    const version = this.#version
    try {
      const entry = await (id.startsWith('key_') ? readApiKey : readSession)(this.#db.read, id)
      if (entry !== undefined && version === this.#version) this.#cache(id, entry)
      return entry
    } finally {
      if (version === this.#version) this.#loading.delete(id)
    }
  }

  #cache(id: string, entry: CredentialEntry): void {
    this.#entries.set(id, entry)
    this.#newest = id
    const [oldest] = this.#entries.keys()
    if (this.#entries.size > MAX_CACHED && oldest !== undefined) this.#entries.delete(oldest)
  }

  /** A secret that was right once is cached with its row: to hash it costs more than most of what a request needs. */
  #isSecret(secret: string, entry: CredentialEntry): boolean {
    const given = Buffer.from(secret)
    const known = this.#secrets.get(entry)
    if (known !== undefined) return known.length === given.length && timingSafeEqual(known, given)
    if (!secretMatches(secret, entry.secretHash)) return false
    this.#secrets.set(entry, given)
    return true
  }

  async #validate(entry: CredentialEntry): Promise<Caller | Refusal> {
    const stamp = now(this.#clock)
    const { caller, ban } = entry
    if (!entry.enabled) return 'unknown'
    if (ban !== null && (ban.expires === null || ban.expires > stamp)) return 'unknown'
    if (caller.expiresAt !== null && caller.expiresAt <= stamp) return 'expired'
    if (entry.whileRelated.length === 0) return caller
    const held = await heldByRelation({ q: this.#db.read, now: stamp }, caller.userId, entry.whileRelated)
    return { ...caller, permissions: new Set([...caller.permissions, ...held]) }
  }

  #renewed(entry: CredentialEntry, caller: Caller): Caller {
    const fullEnd = this.#clock.nowMs() + SLIDING_SESSION_MS
    if (caller.expiresAt === null || fullEnd - Date.parse(caller.expiresAt) < RENEW_AFTER_MS) return caller
    const renewed = { ...caller, expiresAt: isoTime(fullEnd) }
    this.#renewals.set(caller.credentialId, renewed.expiresAt)
    const isCurrent = this.#entries.get(caller.credentialId) === entry
    if (isCurrent) this.#entries.set(caller.credentialId, { ...entry, caller: renewed })
    return renewed
  }

  #count(keyId: string, more?: { count: number; last: IsoTime }): void {
    const known = this.#uses.get(keyId)
    const last = known !== undefined && more !== undefined ? known.last : (more?.last ?? now(this.#clock))
    this.#uses.set(keyId, { count: (known?.count ?? 0) + (more?.count ?? 1), last })
  }

  async #flushing(): Promise<void> {
    const { signal } = this.#closing
    while (!signal.aborted) {
      await this.#clock.sleep(FLUSH_MS, signal)
      if (signal.aborted) return
      await this.flush().catch((error: unknown) => {
        this.#log?.warn({ err: error }, 'the use of credentials could not be written; it is kept and tried again')
      })
    }
  }

  async #write(uses: ReadonlyMap<string, { count: number; last: IsoTime }>, renewals: ReadonlyMap<string, IsoTime>) {
    await this.#db.write(async ({ q, now: stamp }) => {
      for (const [id, { count, last }] of uses) {
        await q
          .updateTable('apiKey')
          .set((eb) => ({ requestCount: eb('requestCount', '+', count), lastRequest: last }))
          .where('id', '=', id)
          .execute()
      }
      for (const [id, expiresAt] of renewals) {
        await q.updateTable('session').set({ expiresAt, updatedAt: stamp }).where('id', '=', id).execute()
      }
    })
  }
}
