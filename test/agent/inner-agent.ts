import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Agent } from '../../src/agent/main.ts'
import type { Clock } from '../../src/shared/kernel/time.ts'
import type { ServerReport } from '../../src/shared/protocol/server.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { betweenLooks } from '../looks.ts'
import { DIST } from '../run-panel.ts'
import { gameSpec, HOLDER } from './agent-stage.ts'
import { GatewayPeer } from './gateway-peer.ts'

/** The machine's clock, which can be put forward: every sleep that is due then ends. */
export class ShiftingClock implements Clock {
  #shiftMs = 0
  readonly #sleeps = new Set<() => void>()

  nowMs(): number {
    return Date.now() + this.#shiftMs
  }

  monotonicMs(): number {
    return performance.now() + this.#shiftMs
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const due = this.monotonicMs() + ms
    while (signal?.aborted !== true) {
      const leftMs = due - this.monotonicMs()
      if (leftMs <= 0) return
      await new Promise<void>((resolve) => {
        const look = (): void => {
          clearTimeout(timer)
          this.#sleeps.delete(look)
          signal?.removeEventListener('abort', look)
          resolve()
        }
        const timer = setTimeout(look, leftMs)
        this.#sleeps.add(look)
        signal?.addEventListener('abort', look)
      })
    }
  }

  pass(ms: number): void {
    this.#shiftMs += ms
    for (const look of [...this.#sleeps]) look()
  }
}

/** An agent in the test's own process, so that the test has its clock; holders and games are real processes. */
export class InnerAgent {
  readonly clock = new ShiftingClock()
  readonly dataDir: string
  readonly peer: GatewayPeer
  readonly #generations = new Map<string, number>()
  #agent: Agent | undefined

  static async enter(): Promise<InnerAgent> {
    const dataDir = await mkdtemp(join(tmpdir(), 'panel-inner-'))
    await chmod(dataDir, 0o711)
    const inner = new InnerAgent(dataDir, await GatewayPeer.listen())
    await inner.start()
    return inner
  }

  private constructor(dataDir: string, peer: GatewayPeer) {
    this.dataDir = dataDir
    this.peer = peer
  }

  async start(): Promise<void> {
    const before = this.peer.of('snapshot').length
    // As it was compiled: its thread for ready lines is a file of JavaScript.
    const { startAgent }: typeof import('../../src/agent/main.ts') = await import(join(DIST, 'src/agent/main.js'))
    this.#agent = await startAgent({
      dataDir: this.dataDir,
      connect: { url: this.peer.url, nodeId: 'node_inner', nodeKey: 'pnk_inner' },
      holder: HOLDER,
      clock: this.clock,
      log: { info: () => {}, warn: () => {}, error: () => {} },
      version: '0.0.0-test',
    })
    await this.peer.until('the snapshot', () => this.peer.of('snapshot').length > before)
  }

  /** The agent goes away; its games run on. */
  async stop(): Promise<void> {
    await this.#agent?.stop()
    this.#agent = undefined
  }

  /** Starts a server; resolves when the order is done. */
  async begin(id: string, change: Partial<ServerSpec>, files: Readonly<Record<string, string>> = {}) {
    const folder = join(this.dataDir, 'servers', id)
    if (Object.keys(files).length > 0) await mkdir(folder, { recursive: true })
    for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
    return await this.order(id, (generation) => ({ op: 'start', spec: gameSpec(id, generation, change) }))
  }

  async order(id: string, command: (generation: number) => Parameters<GatewayPeer['order']>[2]) {
    const generation = this.#next(id)
    return await this.peer.order(id, generation, command(generation))
  }

  /** Sends an order and does not wait for its end. */
  send(id: string, command: (generation: number) => Parameters<GatewayPeer['order']>[2]): string {
    const generation = this.#next(id)
    const commandId = this.peer.nextId()
    this.peer.send({ type: 'command', id: commandId, serverId: id, generation, command: command(generation) })
    return commandId
  }

  /** Lets this much time pass again and again until `look` finds something. */
  async passUntil(what: string, ms: number, look: () => boolean): Promise<void> {
    // Each passing wakes all that waits in the agent, and what that sends is no reason for the next one.
    for (const start = performance.now(); !look(); await betweenLooks(start)) {
      if (performance.now() > start + 40_000) throw new Error(`Waited in vain for: ${what}`)
      this.clock.pass(ms)
    }
  }

  async type(serverId: string, line: string): Promise<void> {
    const { error } = await this.peer.request({ op: 'console.input', serverId, lines: [line] })
    if (error !== null) throw new Error(error.message)
  }

  async reaches(id: string, power: ServerReport['power']): Promise<ServerReport> {
    return await this.peer.report(id, `${id} ${power}`, (report) => report.power === power)
  }

  /** The power states since its first start, each once where it is reported several times in a row. */
  powers(id: string): string[] {
    return this.peer
      .reports(id)
      .map(({ power }) => power)
      .filter((power, at, all) => power !== (all[at - 1] ?? 'offline'))
  }

  async leave(): Promise<void> {
    if (this.#agent === undefined) await this.start()
    for (const id of this.#generations.keys()) {
      await this.order(id, () => ({ op: 'kill' }))
      await this.order(id, () => ({ op: 'delete', keepFiles: false }))
    }
    await this.stop()
    await this.peer.close()
    await rm(this.dataDir, { recursive: true, force: true })
  }

  #next(id: string): number {
    const generation = (this.#generations.get(id) ?? 0) + 1
    this.#generations.set(id, generation)
    return generation
  }
}
