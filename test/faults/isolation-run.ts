import { setMaxListeners } from 'node:events'
import { Agent, request } from 'node:http'
import { getNode } from '../../src/shared/api/nodes.ts'
import { percentile } from '../bench/figure.ts'
import { pause } from '../e2e/wait.ts'
import { FaultPanel } from './fault-panel.ts'
import { type Fleet, SimulatedNode } from './simulated-nodes.ts'

const KINDS = ['list', 'detail', 'power'] as const
/** What is asked of the servers of sound nodes. */
export type Kind = (typeof KINDS)[number]
type Times = Record<Kind, number[]>

/** How much is measured: slices of `each` requests of every kind, of either panel in turn. */
export interface Sampling {
  readonly slices: number
  readonly each: number
}

/** One panel with its fleet; the last node is the one that may fall silent. */
export class IsolationStage {
  readonly panel: FaultPanel
  readonly #nodes: readonly SimulatedNode[]
  readonly #agent = new Agent({ keepAlive: true })
  readonly #over = new AbortController()
  #troubles: Promise<void> | undefined
  #turn = 0

  static async enter(fleet: Fleet): Promise<IsolationStage> {
    const panel = await FaultPanel.enter()
    return new IsolationStage(panel, await SimulatedNode.makeAll(panel, fleet))
  }

  private constructor(panel: FaultPanel, nodes: readonly SimulatedNode[]) {
    this.panel = panel
    this.#nodes = nodes
    setMaxListeners(0, this.#over.signal) // each open request has one
  }

  get last(): SimulatedNode {
    const node = this.#nodes.at(-1)
    if (node === undefined) throw new Error('the fleet has no node')
    return node
  }

  async isLastOnline(): Promise<boolean> {
    return (await this.panel.client.call(getNode, { params: { nodeId: this.last.id } })).isOnline
  }

  /**
   * People who want something of the last node's servers all the time: orders, typed lines, views, and consoles held open.
   * What they are answered does not matter.
   */
  begin(): void {
    for (const serverId of this.last.servers.slice(0, 10)) this.#watch(serverId)
    this.#troubles = this.#trouble()
  }

  /** Asks the servers of all other nodes, one request after the other; how long each took. */
  async sample(each: number, into: Times): Promise<void> {
    for (let i = 0; i < each; i++) {
      const serverId = this.#next()
      into.list.push(await this.#took('GET', `/api/servers?limit=50&page=${1 + (i % 10)}`))
      into.detail.push(await this.#took('GET', `/api/servers/${serverId}`))
      into.power.push(await this.#took('POST', `/api/servers/${serverId}/start`, {}))
    }
  }

  async leave(): Promise<void> {
    this.#over.abort()
    await this.#troubles
    this.#agent.destroy()
    for (const node of this.#nodes) await node.leave()
    await this.panel.leave()
  }

  #next(): string {
    const sound = this.#nodes.slice(0, -1)
    const { servers } = sound[this.#turn % sound.length] ?? this.last
    const serverId = servers[Math.floor(this.#turn++ / sound.length) % servers.length]
    if (serverId === undefined) throw new Error('the fleet has no servers')
    return serverId
  }

  async #trouble(): Promise<void> {
    const { signal } = this.#over
    const open = new Set<Promise<unknown>>()
    const { servers } = this.last
    for (let i = 0; !signal.aborted; i++) {
      const serverId = servers[i % servers.length]
      for (const [method, path, body] of [
        ['POST', `/api/servers/${serverId}/restart`, {}],
        ['POST', `/api/servers/${serverId}/console/command`, { command: 'say hello' }],
        ['GET', `/api/servers/${serverId}`, undefined],
      ] as const) {
        const asked: Promise<unknown> = this.#ask(method, path, body)
          .catch(() => undefined) // what becomes of it is the silent node's affair
          .finally(() => open.delete(asked))
        open.add(asked)
      }
      await pause(50)
    }
    await Promise.all(open)
  }

  #watch(serverId: string): void {
    const made = request(`${this.panel.url}/api/servers/${serverId}/console/stream`, {
      agent: false,
      headers: { authorization: `Bearer ${this.panel.token}` },
      signal: this.#over.signal,
    })
    made.on('response', (response) => response.on('error', () => undefined).resume()) // ended with the stage
    made.on('error', () => undefined) // as above
    made.end()
  }

  async #took(method: 'GET' | 'POST', path: string, body?: object): Promise<number> {
    const began = performance.now()
    const status = await this.#ask(method, path, body)
    const ms = performance.now() - began
    if (status < 200 || status > 299) throw new Error(`${method} ${path} was answered ${status}`)
    return ms
  }

  #ask(method: 'GET' | 'POST', path: string, body?: object): Promise<number> {
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      authorization: `Bearer ${this.panel.token}`,
      ...(text === undefined ? {} : { 'content-type': 'application/json' }),
    }
    return new Promise((resolve, reject) => {
      const options = { method, headers, agent: this.#agent, signal: this.#over.signal }
      const made = request(`${this.panel.url}${path}`, options, (response) => {
        response
          .on('error', reject)
          .on('end', () => resolve(response.statusCode ?? 0))
          .resume()
      })
      made.on('error', reject).end(text)
    })
  }
}

/** The same requests to both panels in turn, so that whatever else the machine does meets both. */
export async function sideBySide(
  sound: IsolationStage,
  hurt: IsolationStage,
  { slices, each }: Sampling,
): Promise<{ readonly sound: Times; readonly hurt: Times }> {
  const times = { sound: noTimes(), hurt: noTimes() }
  for (let slice = 0; slice < slices; slice++) {
    const turn = [() => sound.sample(each, times.sound), () => hurt.sample(each, times.hurt)]
    if (slice % 2 === 1) turn.reverse()
    for (const sample of turn) await sample()
  }
  return times
}

/** How many times as long each kind takes beside a node that hurts, at a percentile. */
export function ratios(times: { readonly sound: Times; readonly hurt: Times }, percent: number): Record<Kind, number> {
  const of = (kind: Kind): number => percentile(times.hurt[kind], percent) / percentile(times.sound[kind], percent)
  return { list: of('list'), detail: of('detail'), power: of('power') }
}

function noTimes(): Times {
  return { list: [], detail: [], power: [] }
}
