import { readFile } from 'node:fs/promises'
import { isIPv6 } from 'node:net'
import type { Address } from '../bind.ts'
import type { RunPlan } from '../runtime.ts'
import { type OpenSocket, socketsOfNetwork } from '../sockets.ts'

/** The network of a container that has one of its own, seen by its first process. */
export class ContainerNetwork {
  readonly #pid: number
  readonly #published: RunPlan['ports'] | undefined

  /** `published`: the addresses of the machine that lead to it; absent: it has an address of its own. */
  constructor(pid: number, published: RunPlan['ports'] | undefined) {
    this.#pid = pid
    this.#published = published
  }

  /**
   * The sockets that get what is sent to an address of the machine; all that can be reached from outside without one. A port that
   * is not published is somebody else's on the machine.
   */
  async listening(address?: Address): Promise<OpenSocket[]> {
    const sockets = await socketsOfNetwork(this.#pid, address?.port)
    const outside = sockets.filter(({ ip }) => !ip.startsWith('127.') && ip !== '::1')
    return address === undefined ? outside : outside.filter((socket) => this.#leadsTo(socket, address))
  }

  #leadsTo({ protocol }: OpenSocket, { ip, port }: Address): boolean {
    if (this.#published === undefined) return true
    return this.#published.some((one) => {
      const isThere = one.port === port && (one.ip === ip || one.ip === (isIPv6(ip) ? '::' : '0.0.0.0'))
      return isThere && (one.protocol === undefined || one.protocol === 'both' || one.protocol === protocol)
    })
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
