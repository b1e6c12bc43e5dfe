import { createHash, createHmac } from 'node:crypto'
import { join } from 'node:path'
import { Refusal } from './sim-answer.ts'
import { type SimTree, textFile, writeArchive } from './sim-files.ts'
import type { Faults } from './sim-options.ts'
import { type Random, randomFrom } from './sim-random.ts'
import type { SimBackup, SimServer, SimWorld } from './sim-world.ts'

/** Backups of the source: rows at once, archives when they are done. */
export class SimBackups {
  readonly #world: SimWorld
  readonly #folder: string
  readonly #faults: () => Faults
  readonly #spend: (fault: 'backupFail' | 'backupHang') => boolean
  readonly #made = new Map<number, number[]>()
  readonly #random: Random
  readonly #running = new Set<Promise<void>>()
  readonly #timers = new Map<NodeJS.Timeout, () => void>()

  constructor(options: {
    world: SimWorld
    folder: string
    faults: () => Faults
    /** Whether a fault that counts down hits now. */
    spend: (fault: 'backupFail' | 'backupHang') => boolean
  }) {
    this.#world = options.world
    this.#folder = options.folder
    this.#faults = options.faults
    this.#spend = options.spend
    this.#random = randomFrom(`backups ${options.world.options.seed}`)
  }

  /** Begins one, or refuses it as the panel does. */
  create(server: SimServer, body: Record<string, unknown>): SimBackup {
    const name = body['name'] ?? null
    if (name !== null && (typeof name !== 'string' || name.length > 191)) {
      throw new Refusal(422, 'ValidationException', 'The name may not be greater than 191 characters.', {
        meta: { source_field: 'name', rule: 'max' },
      })
    }
    this.#throttle(server)
    const limit = server.featureLimits.backups
    const counted = server.backups.filter((one) => one.completedMs === null || one.isSuccessful).length
    if (limit === 0 || counted >= limit) {
      const detail = `This server has reached its limit of ${limit} backups.`
      throw new Refusal(400, 'TooManyBackupsException', detail)
    }
    const ignored = typeof body['ignored'] === 'string' ? body['ignored'].split('\n').filter((one) => one !== '') : []
    const backup: SimBackup = {
      uuid: this.#random.uuid(),
      name: name ?? `Backup at ${new Date().toISOString()}`,
      isSuccessful: false,
      isLocked: body['is_locked'] === true,
      ignored,
      checksum: null,
      bytes: 0,
      createdMs: Date.now(),
      completedMs: null,
      file: null,
    }
    server.backups.push(backup)
    this.#made.set(server.id, [...(this.#made.get(server.id) ?? []), Date.now()])
    this.#begin(server, backup)
    return backup
  }

  #throttle(server: SimServer): void {
    const { max, windowMs } = this.#faults().backupThrottle
    const now = Date.now()
    const recent = (this.#made.get(server.id) ?? []).filter((at) => at > now - windowMs)
    const [first] = recent
    if (first === undefined || recent.length < max) return
    const detail = `Only ${max} backups may be generated within a ${windowMs / 1000} second span of time.`
    throw new Refusal(429, 'TooManyRequestsHttpException', detail, { retryAfterMs: first + windowMs - now })
  }

  #begin(server: SimServer, backup: SimBackup): void {
    if (this.#spend('backupHang')) return
    const isBad = this.#spend('backupFail')
    const { backupMs, hostileTar } = this.#faults()
    // The folder as it is now: what changes meanwhile is in the next one.
    const tree: SimTree = { ...server.tree, files: new Map(server.tree.files) }
    const work = new Promise<void>((resolve) => {
      const timer = setTimeout(() => {
        this.#timers.delete(timer)
        resolve()
      }, backupMs)
      this.#timers.set(timer, resolve)
    }).then(async () => {
      if (!server.backups.includes(backup)) return
      if (!isBad) await this.#seal(backup, tree, hostileTar)
      backup.completedMs = Date.now()
      backup.isSuccessful = !isBad
    })
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  async #seal(backup: SimBackup, tree: SimTree, hostile = false): Promise<void> {
    const file = join(this.#folder, `${backup.uuid}.tar.gz`)
    const { bytes, sha1 } = await writeArchive(tree, file, { ignored: backup.ignored, hostile })
    Object.assign(backup, { file, bytes, checksum: `sha1:${sha1}` })
  }

  /** Gives the backups that the world begins with their archives, of files as they were long ago. */
  async sealOld(): Promise<void> {
    for (const server of this.#world.servers) {
      for (const backup of server.backups) {
        if (backup.file !== null) continue
        const files = new Map([...server.tree.files].map(([path, file]) => [path, { ...file, version: 0 }]))
        files.set('stale.txt', textFile('of long ago\n'))
        await this.#seal(backup, { ...server.tree, files })
      }
    }
  }

  remove(server: SimServer, backup: SimBackup): void {
    if (backup.isLocked && backup.isSuccessful) {
      throw new Refusal(400, 'BackupLockedException', 'Cannot delete a backup that is marked as locked.')
    }
    server.backups.splice(server.backups.indexOf(backup), 1)
  }

  /** Ends what runs. */
  async close(): Promise<void> {
    for (const [timer, resolve] of this.#timers) {
      clearTimeout(timer)
      resolve()
    }
    await Promise.all(this.#running)
  }
}

/** A token as the source signs them (HS256). */
export function signedToken(key: string, claims: Record<string, unknown>): string {
  const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const head = `${part({ typ: 'JWT', alg: 'HS256' })}.${part(claims)}`
  return `${head}.${hmac(key, head)}`
}

function hmac(key: string, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url')
}

/** What a token claims, if this key has signed it and it is not over. */
export function claimsOf(key: string, token: string): Record<string, unknown> | undefined {
  const [head = '', body = '', signature = ''] = token.split('.')
  if (signature === '' || hmac(key, `${head}.${body}`) !== signature) return undefined
  const claims: unknown = JSON.parse(Buffer.from(body, 'base64url').toString())
  if (typeof claims !== 'object' || claims === null) return undefined
  const { exp, nbf } = claims as { exp?: unknown; nbf?: unknown }
  const now = Date.now() / 1000
  if (typeof exp !== 'number' || exp < now || typeof nbf !== 'number' || nbf > now) return undefined
  return claims as Record<string, unknown>
}

/** The claims of a URL for one download. */
export function downloadClaims(more: { server: SimServer; userUuid: string; userId: number; url: string }) {
  const now = Math.floor(Date.now() / 1000)
  const unique = createHash('sha256').update(`${more.server.uuid}${process.hrtime.bigint()}`).digest('hex')
  return {
    iss: more.url,
    aud: [more.url],
    jti: createHash('md5').update(unique).digest('hex'),
    iat: now,
    nbf: now - 300,
    exp: now + 900,
    server_uuid: more.server.uuid,
    user_uuid: more.userUuid,
    user_id: more.userId,
    unique_id: unique.slice(0, 16),
  }
}
