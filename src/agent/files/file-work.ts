import type { FilePaths } from '../../shared/kernel/file-paths.ts'
import { FILE_LIMITS } from '../../shared/protocol/file-operations.ts'
import { AgentFailure } from '../failure.ts'
import type { ServerTable } from '../server/commands.ts'
import { knownServer } from '../server/known-server.ts'
import type { GameServer } from '../server/server.ts'
import { PathRules } from './rules.ts'

/** Paths with the fields of the request that they stand in. */
export type Named = readonly (readonly [path: string, field: string])[]

/** What all requests of files have in common: whose they are, what they may reach, and how many there are at a time. */
export class FileWork {
  readonly #servers: ServerTable
  readonly #running = new Map<string, number>()
  readonly #keyed = new Map<string, Promise<void>>()

  constructor(servers: ServerTable) {
    this.#servers = servers
  }

  server(serverId: string): GameServer {
    return knownServer(this.#servers, serverId)
  }

  rootOf(serverId: string): string {
    return this.server(serverId).place.files
  }

  /** The rules for a request, after its own paths were held to them. */
  rulesFor(
    serverId: string,
    {
      denied = [],
      filePaths,
      reads = [],
      changes = [],
    }: { denied?: readonly string[]; filePaths?: FilePaths | undefined; reads?: Named; changes?: Named },
  ): PathRules {
    const rules = new PathRules(this.server(serverId).spec.mounts ?? [], denied, filePaths)
    for (const [path, field] of reads) rules.check(path, { field })
    for (const [path, field] of changes) rules.check(path, { field, changes: true })
    return rules
  }

  /**
   * Lets a server have so many long operations at a time; one more is refused. One of a key waits until the one before it of that key
   * has ended, as after a break of the connection: what the two have on their way has the same name.
   */
  async long<T>(serverId: string, key: string | undefined, work: () => Promise<T>): Promise<T> {
    const before = key === undefined ? undefined : this.#keyed.get(key)
    if (before !== undefined) await before
    const running = this.#counted(serverId, work)
    if (key !== undefined) {
      const ended = running.then(
        () => undefined,
        () => undefined,
      )
      this.#keyed.set(key, ended)
      void ended.then(() => {
        if (this.#keyed.get(key) === ended) this.#keyed.delete(key)
      })
    }
    return await running
  }

  async #counted<T>(serverId: string, work: () => Promise<T>): Promise<T> {
    const there = this.#running.get(serverId) ?? 0
    if (there >= FILE_LIMITS.atOnce) {
      const message = `${there} operations on files of this server are under way; try again when one has ended`
      throw new AgentFailure('CONFLICT_STATE', message)
    }
    this.#running.set(serverId, there + 1)
    try {
      return await work()
    } finally {
      const left = (this.#running.get(serverId) ?? 1) - 1
      if (left > 0) this.#running.set(serverId, left)
      else this.#running.delete(serverId)
    }
  }

  /** What changes how much a server has on its disk. */
  async changing<T>(serverId: string, work: (server: GameServer) => Promise<T>): Promise<T> {
    const server = this.server(serverId)
    try {
      return await work(server)
    } finally {
      server.context.disk.expire(server.id)
    }
  }
}

/** Paths of a list, by their fields. */
export function numbered(paths: readonly string[]): Named {
  return paths.map((path, number) => [path, `paths.${number}`])
}
