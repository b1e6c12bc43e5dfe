import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal } from './answer.ts'
import { writeArchive } from './archive.ts'
import type { FaultInjector } from './fault-injector.ts'
import { type SimTree, textFile } from './files.ts'
import { type Faults, NO_FAULTS } from './options.ts'
import { randomFrom } from './random.ts'
import type { SimBackup, SimServer, SimWorld } from './rows.ts'

/** Backups of the source: rows at once, archives when they are done. */
export class SimBackups {
  readonly #world: SimWorld
  readonly #injector: FaultInjector
  readonly #onChange: () => Promise<void>
  readonly #running = new Set<Promise<void>>()
  readonly #closed = new AbortController()
  #folder = ''

  /** `onChange`: called when a backup has ended. */
  constructor(options: {
    readonly world: SimWorld
    readonly injector: FaultInjector
    readonly onChange: () => Promise<void>
  }) {
    this.#world = options.world
    this.#injector = options.injector
    this.#onChange = options.onChange
  }

  /**
   * Keeps archives in a folder, and makes those of the backups that the world begins with, of files as they were long ago. What was under way
   * when the source ended is done anew.
   */
  async open(folder: string): Promise<void> {
    this.#folder = folder
    for (const server of this.#world.servers) {
      for (const backup of server.backups) {
        if (backup.completedMs === null && !backup.isHanging) this.#run(server, backup, false)
        if (backup.file !== null || !backup.isSuccessful) continue
        const files = new Map([...server.tree.files].map(([path, file]) => [path, { ...file, version: 0 }]))
        files.set('stale.txt', textFile('of long ago\n'))
        await this.#seal(backup, { ...server.tree, files }, NO_FAULTS)
      }
    }
  }

  /** Ends what runs. The folder. */
  async close(): Promise<string> {
    this.#closed.abort()
    await Promise.all(this.#running)
    return this.#folder
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
    const limit = server.featureLimits.backups ?? 0
    if (countedOf(server.backups).length >= limit) {
      const detail = `This server has reached its limit of ${limit} backups.`
      throw new Refusal(400, 'TooManyBackupsException', detail)
    }
    const ignored = typeof body['ignored'] === 'string' ? body['ignored'].split('\n').filter((one) => one !== '') : []
    const { options, asked } = this.#world
    const backup: SimBackup = {
      uuid: randomFrom(`backups ${options.seed} ${asked.length}`).uuid(),
      name: name ?? `Backup at ${new Date().toISOString()}`,
      isSuccessful: false,
      isLocked: body['is_locked'] === true,
      ignored,
      checksum: null,
      bytes: 0,
      createdMs: Date.now(),
      completedMs: null,
      file: null,
      isHanging: this.#injector.spend('backupHang'),
    }
    server.backups.push(backup)
    asked.push({ serverId: server.id, backup })
    if (!backup.isHanging) this.#run(server, backup, this.#injector.spend('backupFail'))
    return backup
  }

  #throttle(server: SimServer): void {
    const { max, windowMs } = this.#injector.faults.backupThrottle
    const now = Date.now()
    const own = this.#world.asked.filter(({ serverId }) => serverId === server.id).map(({ backup }) => backup)
    const recent = countedOf(own).filter(({ createdMs }) => createdMs > now - windowMs)
    const [first] = recent
    if (first === undefined || recent.length < max) return
    const detail = `Only ${max} backups may be generated within a ${windowMs / 1000} second span of time.`
    throw new Refusal(429, 'TooManyRequestsHttpException', detail, { retryAtMs: first.createdMs + windowMs })
  }

  #run(server: SimServer, backup: SimBackup, isBad: boolean): void {
    // The folder as it is now: what changes meanwhile is in the next one.
    const tree: SimTree = { ...server.tree, files: new Map(server.tree.files) }
    const work = this.#finish(server, { backup, tree, isBad })
    this.#running.add(work)
    void work.finally(() => this.#running.delete(work))
  }

  async #finish(
    server: SimServer,
    { backup, tree, isBad }: { readonly backup: SimBackup; readonly tree: SimTree; readonly isBad: boolean },
  ): Promise<void> {
    const { signal } = this.#closed
    await sleep(this.#injector.faults.backupMs, undefined, { signal }).catch(() => undefined)
    if (signal.aborted || !server.backups.includes(backup)) return
    if (!isBad) await this.#seal(backup, tree, this.#injector.faults)
    backup.completedMs = Date.now()
    backup.isSuccessful = !isBad
    await this.#onChange()
  }

  async #seal(backup: SimBackup, tree: SimTree, { hostileTar, tarBomb }: Faults): Promise<void> {
    const file = join(this.#folder, `${backup.uuid}.tar.gz`)
    const { bytes, sha1 } = await writeArchive(tree, file, { ignored: backup.ignored, hostileTar, tarBomb })
    Object.assign(backup, { file, bytes, checksum: `sha1:${sha1}` })
  }

  /** Deletes one, with its archive. */
  remove(server: SimServer, backup: SimBackup): void {
    if (backup.isLocked && backup.isSuccessful) {
      throw new Refusal(400, 'BackupLockedException', 'Cannot delete a backup that is marked as locked.')
    }
    server.backups.splice(server.backups.indexOf(backup), 1)
    if (backup.file !== null) rmSync(backup.file, { force: true })
  }
}

/** Those that take up a slot: pending ones do, failed ones do not. */
export function countedOf(backups: readonly SimBackup[]): readonly SimBackup[] {
  return backups.filter((one) => one.completedMs === null || one.isSuccessful)
}
