import { readdir, readlink } from 'node:fs/promises'
import { type RunScope, runPids } from '../holder/run-processes.ts'
import type { OpenSocket, SocketTable } from './sockets.ts'

/** A run with more open files than this is looked at no further: the look must not become a load. */
const MAX_LINKS = 20_000

/** Which open sockets the processes of one run have. */
export class RunSockets {
  readonly #scope: RunScope
  readonly #table: SocketTable
  /** Where each socket was found last: `/proc/<pid>/fd/<number>` by the socket's link. */
  readonly #found = new Map<string, string>()

  constructor(scope: RunScope, table: SocketTable) {
    this.#scope = scope
    this.#table = table
  }

  /** Those that are reached at the address. Costs little where they are what they were. */
  async at(address: { readonly ip: string; readonly port: number }): Promise<OpenSocket[]> {
    const there = await this.#table.at(address)
    if (there.length === 0) return []
    const known = await Promise.all(there.map((socket) => this.#stillHas(socket)))
    return known.every(Boolean) ? there : await this.#ownOf(there)
  }

  /** All of them. */
  async all(): Promise<OpenSocket[]> {
    return await this.#ownOf(await this.#table.all())
  }

  async #stillHas(socket: OpenSocket): Promise<boolean> {
    const link = linkOf(socket)
    const path = this.#found.get(link)
    return path !== undefined && (await readlink(path).catch(() => '')) === link // gone: somebody else may have it now
  }

  async #ownOf(sockets: readonly OpenSocket[]): Promise<OpenSocket[]> {
    const wanted = new Set(sockets.map(linkOf))
    this.#found.clear()
    let left = MAX_LINKS
    for (const pid of runPids(this.#scope)) {
      const folder = `/proc/${pid}/fd`
      const names = (await readdir(folder).catch(() => [])).slice(0, left) // it has ended, or may not be looked at
      left -= names.length
      const links = await Promise.all(names.map((name) => readlink(`${folder}/${name}`).catch(() => ''))) // likewise
      links.forEach((link, at) => {
        if (wanted.has(link)) this.#found.set(link, `${folder}/${names[at]}`)
      })
    }
    return sockets.filter((socket) => this.#found.has(linkOf(socket)))
  }
}

function linkOf({ inode }: OpenSocket): string {
  return `socket:[${inode}]`
}
