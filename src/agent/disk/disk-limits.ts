import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Clock } from '../../shared/kernel/time.ts'
import type { DiskEnforced } from '../../shared/protocol/server.ts'
import { type AgentLog, errorText } from '../logger.ts'
import { SerialQueue } from '../server/serial-queue.ts'
import { readOwnJson, writeOwnJson } from '../state/json-file.ts'
import { type FoundQuota, findQuota } from './find-quota.ts'
import { type QuotaFolder, QuotaProblem } from './quota.ts'

/** Project ids of servers: far above what people give by hand. */
const FIRST_ID = 1_000_000_000
const IDS = 1_000_000_000

/** What a server's disk limit is held by; `reason`: why the kernel does not. */
export interface Hold {
  readonly enforced: DiskEnforced
  readonly reason: string | null
}

/** A server whose folder is to be held to a size. */
export interface LimitedServer {
  readonly id: string
  readonly files: string
  /** 0 or less: there is none. */
  readonly limitMb: number
  /** Nothing of the server runs now. */
  readonly isStopped: boolean
}

/** quotas.json. */
interface QuotaFile {
  readonly backend: string
  readonly servers: Readonly<Record<string, Given>>
  /** Ids whose servers are gone, and that the file system has not let go of. */
  readonly freed: readonly number[]
}

interface Given {
  readonly id: number
  /** All in the folder is counted. */
  readonly isWhole: boolean
}

interface Held extends Hold {
  readonly limitMb: number
  readonly folder: QuotaFolder | null
  /** It was tried while nothing of the server ran: trying again soon leads nowhere else. */
  readonly atRest: boolean
}

/**
 * Has the kernel hold servers to their disk limits, where the file system of the data folder can. Which id each server has is
 * kept in the data folder: ids are unique in it, and given back when a server is gone.
 */
export class DiskLimits {
  readonly #dataDir: string
  readonly #clock: Clock
  readonly #log: AgentLog
  readonly #turn = new SerialQueue()
  readonly #held = new Map<string, Held>()
  #found: Promise<FoundQuota> | undefined

  constructor(options: { readonly dataDir: string; readonly clock: Clock; readonly log: AgentLog }) {
    this.#dataDir = options.dataDir
    this.#clock = options.clock
    this.#log = options.log
  }

  /** What the file system allows. */
  async node(): Promise<Hold> {
    const { backend, reason } = await this.#backend()
    return { enforced: backend === null ? 'watch' : 'kernel', reason }
  }

  /** What holds a server's limit; `undefined` before the first look. */
  of(serverId: string): Hold | undefined {
    return this.#held.get(serverId)
  }

  /** Whether the limit in force is the one that is wanted, as far as it can be. */
  isCurrent({ id, limitMb, isStopped }: LimitedServer): boolean {
    const held = this.#held.get(id)
    return held !== undefined && held.limitMb === limitMb && (held.enforced === 'kernel' || held.atRest || !isStopped)
  }

  /**
   * Has a server's folder held to its limit, and makes the folder where the file system wants it made in its own way. Never rejects:
   * where the kernel cannot hold it, the answer says why, and the watch goes by what is measured.
   */
  async hold(server: LimitedServer): Promise<Hold> {
    return await this.#turn.add(async () => {
      const before = this.#held.get(server.id)
      const isSame = before?.limitMb === server.limitMb && before.folder !== null
      if (before !== undefined && isSame && existsSync(server.files)) return before
      const { backend, reason } = await this.#backend()
      const held = backend === null ? watched(server, reason) : await this.#claim(server)
      this.#held.set(server.id, held)
      if (held.reason !== null && backend !== null && held.reason !== before?.reason) {
        this.#log.warn({ serverId: server.id, reason: held.reason }, 'disk limit is watched, not held by the kernel')
      }
      return held
    })
  }

  /** Makes a folder that can take the place of a server's: where the file system wants it made in its own way, in that way. */
  async makeAside(path: string): Promise<void> {
    const { backend } = await this.#backend()
    if (backend?.make !== undefined) await backend.make(path)
    else await mkdir(path, { mode: 0o700 })
  }

  /** Another folder has taken the place of a server's: it is held to the limit in its turn. */
  async replaced(server: LimitedServer): Promise<Hold> {
    await this.#turn.add(async () => {
      this.#held.delete(server.id)
      const file = await this.#read()
      const given = file.servers[server.id]
      if (given === undefined) return
      await this.#write({ ...file, servers: { ...file.servers, [server.id]: { ...given, isWhole: false } } })
    })
    const hold = await this.hold(server)
    await this.giveBack()
    return hold
  }

  /** What the kernel counts for a server now, in MiB; `null` where it does not. */
  async usedMb(serverId: string): Promise<number | null> {
    const folder = this.#held.get(serverId)?.folder
    const { backend } = await this.#backend()
    if (folder == null || backend === null || !existsSync(folder.path)) return null
    const bytes = await backend.usedBytes(folder)
    return bytes === null ? null : bytes / (1024 * 1024)
  }

  /** The server is gone: its id is free again. With its files left behind they keep the id, without a limit. */
  async release(serverId: string, files: string): Promise<void> {
    this.#held.delete(serverId)
    await this.#turn.add(async () => {
      const file = await this.#read()
      const given = file.servers[serverId]
      if (given === undefined) return
      if (existsSync(files)) {
        const { backend } = await this.#backend()
        await backend?.limit({ path: files, id: given.id }, 0).catch((error: unknown) => {
          this.#log.warn({ serverId, err: errorText(error) }, 'cannot lift disk limit of the files that are kept')
        })
        return
      }
      const { [serverId]: _, ...servers } = file.servers
      await this.#write({ ...file, servers, freed: [...file.freed, given.id] })
    })
    await this.giveBack()
  }

  /** Gives ids back that are no longer used: of servers that are gone, and of files that were kept and are gone since. */
  async giveBack(known?: ReadonlyMap<string, unknown>, filesOf?: (serverId: string) => string): Promise<void> {
    await this.#turn.add(async () => {
      const { backend } = await this.#backend()
      const file = await this.#read()
      if (backend === null || file.backend !== backend.name) return
      const servers: Record<string, Given> = {}
      const freed = [...file.freed]
      for (const [serverId, given] of Object.entries(file.servers)) {
        const isLeft =
          known !== undefined && filesOf !== undefined && !known.has(serverId) && !existsSync(filesOf(serverId))
        if (isLeft) freed.push(given.id)
        else servers[serverId] = given
      }
      if (freed.length === 0) return
      const busy: number[] = []
      for (const id of freed) if (!(await backend.release(id).catch(() => false))) busy.push(id)
      if (busy.length < freed.length || freed.length > file.freed.length)
        await this.#write({ ...file, servers, freed: busy })
    })
  }

  async #claim(server: LimitedServer): Promise<Held> {
    const { id: serverId, files: path, limitMb, isStopped } = server
    const { backend } = await this.#backend()
    if (backend === null) return watched(server, null)
    try {
      const file = await this.#read()
      const known = file.backend === backend.name ? file.servers[serverId] : undefined
      const id = known?.id ?? this.#freeId(file)
      // Written before the file system has it: what is cut off here is found by its name again.
      if (known === undefined) await this.#remember(backend.name, serverId, { id, isWhole: false })
      const isWhole = known?.isWhole === true && existsSync(path)
      const folder = await backend.claim({ path, id, isWhole, mayTakeOver: isStopped })
      if (folder.id !== id || !isWhole) {
        const isOthers = known !== undefined && folder.id !== id
        await this.#remember(backend.name, serverId, { id: folder.id, isWhole: true }, isOthers ? [id] : [])
      }
      await backend.limit(folder, limitMb)
      return { enforced: 'kernel', reason: null, limitMb, folder, atRest: isStopped }
    } catch (error) {
      return watched(server, error instanceof QuotaProblem ? error.message : errorText(error))
    }
  }

  #freeId(file: QuotaFile): number {
    const taken = new Set([...Object.values(file.servers).map(({ id }) => id), ...file.freed])
    // Two data folders of one file system begin at different places.
    const start = createHash('sha256').update(this.#dataDir).digest().readUInt32BE(0)
    let next = start % IDS
    while (taken.has(FIRST_ID + next)) next = (next + 1) % IDS
    return FIRST_ID + next
  }

  async #remember(backend: string, serverId: string, given: Given, freed: readonly number[] = []): Promise<void> {
    const file = await this.#read()
    const before: QuotaFile = file.backend === backend ? file : { backend, servers: {}, freed: [] }
    const servers = { ...before.servers, [serverId]: given }
    await this.#write({ ...before, servers, freed: [...before.freed, ...freed] })
  }

  async #read(): Promise<QuotaFile> {
    return (await readOwnJson<QuotaFile>(this.#path)) ?? { backend: '', servers: {}, freed: [] }
  }

  async #write(file: QuotaFile): Promise<void> {
    await writeOwnJson(this.#path, file)
  }

  get #path(): string {
    return join(this.#dataDir, 'quotas.json')
  }

  #backend(): Promise<FoundQuota> {
    this.#found ??= findQuota(this.#dataDir, this.#clock).catch((error: unknown) => ({
      backend: null,
      reason: errorText(error).slice(0, 300),
    }))
    return this.#found
  }
}

function watched({ limitMb, isStopped }: LimitedServer, reason: string | null): Held {
  return { enforced: 'watch', reason, limitMb, folder: null, atRest: isStopped }
}
