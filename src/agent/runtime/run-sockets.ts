import { readdirSync, readlinkSync } from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { type RunScope, runPids } from '../holder/run-processes.ts'
import type { ProcessTable } from './process-table.ts'
import type { OpenSocket, SocketTable } from './sockets.ts'

/** A run with more open files than this is looked at no further: the look must not become a load. */
const MAX_LINKS = 20_000
const LINKS_AT_ONCE = 500

/** Which open sockets the processes of one run have. */
export class RunSockets {
  readonly #scope: RunScope
  readonly #table: SocketTable
  readonly #processes: ProcessTable
  /** Where each socket was found last: `/proc/<pid>/fd/<number>` by the socket's link. */
  readonly #found = new Map<string, string>()

  constructor(scope: RunScope, machine: { readonly sockets: SocketTable; readonly processes: ProcessTable }) {
    this.#scope = scope
    this.#table = machine.sockets
    this.#processes = machine.processes
  }

  /** Those that are reached at the address. Costs little where they are what they were. */
  async at(address: { readonly ip: string; readonly port: number }): Promise<OpenSocket[]> {
    const there = await this.#table.at(address)
    if (there.length === 0) return []
    return there.every((socket) => this.#stillHas(socket)) ? there : await this.#ownOf(there)
  }

  /** All of them. */
  async all(): Promise<OpenSocket[]> {
    return await this.#ownOf(await this.#table.all())
  }

  #stillHas(socket: OpenSocket): boolean {
    const link = linkOf(socket)
    const path = this.#found.get(link)
    return path !== undefined && targetOf(path) === link
  }

  /** The looks of many runs come at the same time; other work has its turn between them. */
  async #ownOf(sockets: readonly OpenSocket[]): Promise<OpenSocket[]> {
    if (sockets.length === 0) return []
    return await this.#table.turns.add(async () => {
      await setImmediate()
      const wanted = new Set(sockets.map(linkOf))
      this.#found.clear()
      let left = MAX_LINKS
      for (const pid of runPids(this.#scope, this.#processes.now())) {
        const folder = `/proc/${pid}/fd`
        const names = namesIn(folder).slice(0, left)
        left -= names.length
        for (const [at, name] of names.entries()) {
          const link = targetOf(`${folder}/${name}`)
          if (wanted.has(link)) this.#found.set(link, `${folder}/${name}`)
          if (at % LINKS_AT_ONCE === LINKS_AT_ONCE - 1) await setImmediate()
        }
      }
      return sockets.filter((socket) => this.#found.has(linkOf(socket)))
    })
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return [] // it has ended, or may not be looked at
  }
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return '' // gone: somebody else may have it now
  }
}

function linkOf({ inode }: OpenSocket): string {
  return `socket:[${inode}]`
}
