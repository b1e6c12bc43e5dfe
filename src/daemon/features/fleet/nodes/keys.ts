import { newId } from '../../../../shared/kernel/ids.ts'
import type { Clock, IsoTime } from '../../../../shared/kernel/time.ts'
import { formatToken, newSecret, parseToken, secretMatches, sha256 } from '../../../core/secrets.ts'
import type { Db, Queries, Tx } from '../../../db/db.ts'
import { writeKeysUsed } from './joining-rows.ts'

/** What may be shown of a key. */
export interface NodeKeyInfo {
  readonly id: string
  readonly preview: string
  readonly createdAt: IsoTime
  readonly lastUsedAt: IsoTime | null
}

/**
 * The keys by which agents prove to be their nodes. A node has at most one: issuing another one ends the first at once.
 * The hashes of all of them are kept in memory, so that a wrong key costs one hash and no query: however much is guessed,
 * nobody with a right key waits behind the guesses.
 */
export interface NodeKeys {
  /** Whether this is the node's key; an unknown node and a wrong key are the same answer. */
  verify(nodeId: string, key: string): Promise<'ok' | 'unknown'>
  /** Makes a key for the node, replaces the one it had, and answers it in clear for this once. */
  issue(tx: Tx, nodeId: string): Promise<string>
  /** Ends the node's key; answers whether there was one. */
  revoke(tx: Tx, nodeId: string): Promise<boolean>
  find(q: Queries, nodeId: string): Promise<NodeKeyInfo | undefined>
  /**
   * Calls back after the commit that ended a key of the node. Who verifies and only then registers a connection
   * verifies once more after registering: the key may have ended between the two.
   */
  onRevoked(listener: (nodeId: string) => void): () => void
}

const SEEN_MS = 60_000
const PREVIEW_CHARACTERS = 12

/** The keys over their table. */
export function createNodeKeys({ db, clock }: { db: Db; clock: Clock }): NodeKeys {
  const listeners = new Set<(nodeId: string) => void>()
  const hashes = new KeyHashes(db)
  const revoke = async (tx: Tx, nodeId: string): Promise<boolean> => {
    const ended = await tx.q.deleteFrom('nodeKey').where('nodeId', '=', nodeId).returning('id').execute()
    if (ended.length === 0) return false
    tx.onCommit(() => hashes.reload())
    tx.onCommit(() => {
      for (const listener of listeners) listener(nodeId)
    })
    return true
  }
  return {
    revoke,
    verify: async (nodeId, key) => {
      const token = parseToken(key)
      if (token?.kind !== 'pnk') return 'unknown'
      const known = (await hashes.all()).get(token.id)
      if (!secretMatches(token.secret, known?.secretHash ?? '') || known?.nodeId !== nodeId) return 'unknown'
      hashes.used(known, clock.nowMs())
      return 'ok'
    },
    issue: async (tx, nodeId) => {
      await revoke(tx, nodeId)
      const id = newId('nky', clock)
      const secret = newSecret()
      const token = formatToken('pnk', id, secret)
      const row = {
        id,
        nodeId,
        secretHash: sha256(secret),
        preview: `${token.slice(0, PREVIEW_CHARACTERS)}…`,
        createdAt: tx.now,
        lastUsedAt: null,
      }
      await tx.q.insertInto('nodeKey').values(row).execute()
      // Whoever makes a key decides which machine gets it: the first that connects with it is the node's.
      await tx.q.updateTable('node').set({ machineId: null, machineBootId: null }).where('id', '=', nodeId).execute()
      tx.onCommit(() => hashes.reload())
      return token
    },
    find: (q, nodeId) =>
      q
        .selectFrom('nodeKey')
        .select(['id', 'preview', 'createdAt', 'lastUsedAt'])
        .where('nodeId', '=', nodeId)
        .executeTakeFirst(),
    onRevoked: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
  }
}

interface KeyHash {
  readonly id: string
  readonly nodeId: string
  readonly secretHash: string
  seenMs: number | undefined
}

/** The hashes of all keys by key id. */
class KeyHashes {
  readonly #db: Db
  readonly #used = new Set<KeyHash>()
  #loaded: Promise<Map<string, KeyHash>> | undefined

  constructor(db: Db) {
    this.#db = db
  }

  /** Never older than the last commit that changed a key. */
  async all(): Promise<Map<string, KeyHash>> {
    for (;;) {
      const loading = this.#loaded ?? this.#load()
      this.#loaded = loading
      const keys = await loading.catch((error: unknown) => {
        if (this.#loaded === loading) this.#loaded = undefined
        throw error
      })
      if (this.#loaded === loading) return keys
    }
  }

  reload(): void {
    this.#loaded = undefined
  }

  /** Writes down, at most once a minute, that the key was used. Nobody waits for it, and those of many keys are written together. */
  used(key: KeyHash, nowMs: number): void {
    if (key.seenMs !== undefined && nowMs - key.seenMs <= SEEN_MS) return
    key.seenMs = nowMs
    this.#used.add(key)
    if (this.#used.size > 1) return
    this.#db
      .write(async (tx) => {
        const ids = JSON.stringify([...this.#used].map(({ id }) => id))
        this.#used.clear()
        await writeKeysUsed(tx.q, { ids, now: tx.now })
      })
      .catch(() => {
        this.#used.clear() // a sign for people, which cannot be written now: the next use is written again
      })
  }

  async #load(): Promise<Map<string, KeyHash>> {
    const rows = await this.#db.read
      .selectFrom('nodeKey')
      .select(['id', 'nodeId', 'secretHash', 'lastUsedAt'])
      .execute()
    return new Map(
      rows.map(({ id, nodeId, secretHash, lastUsedAt }) => {
        const seenMs = lastUsedAt === null ? undefined : Date.parse(lastUsedAt)
        return [id, { id, nodeId, secretHash, seenMs }]
      }),
    )
  }
}
