import { readFile } from 'node:fs/promises'
import { type OpenSocket, socketsOfNetwork } from '../sockets.ts'

/** The network of a container that has one of its own, seen by its first process. */
export class ContainerNetwork {
  readonly #pid: number

  constructor(pid: number) {
    this.#pid = pid
  }

  /** The sockets that the engine can hand on what comes for a port; all of them without one. */
  async listening(address?: { readonly port: number }): Promise<OpenSocket[]> {
    const sockets = await socketsOfNetwork(this.#pid, address?.port)
    return sockets.filter(({ ip }) => !ip.startsWith('127.') && ip !== '::1')
  }

  /** Bytes that have come in and gone out since it began, as decimal text; `null` where that is not known. */
  async traffic(): Promise<{ readonly networkRxBytes: string | null; readonly networkTxBytes: string | null }> {
    const text = await readFile(`/proc/${this.#pid}/net/dev`, 'latin1').catch(() => '') // it has ended
    let [received, sent] = [0n, 0n]
    const interfaces = text.split('\n').flatMap((line) => {
      const [name, counters] = line.split(':')
      return counters === undefined || name?.trim() === 'lo' ? [] : [counters.trim().split(/\s+/)]
    })
    for (const counters of interfaces) {
      received += BigInt(counters[0] ?? 0)
      sent += BigInt(counters[8] ?? 0)
    }
    if (interfaces.length === 0) return { networkRxBytes: null, networkTxBytes: null }
    return { networkRxBytes: String(received), networkTxBytes: String(sent) }
  }
}
