import { createApiKey } from '../../src/shared/api/api-keys.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import { Cable } from './cable.ts'
import { type FaultNode, FaultPanel, type StopRule } from './fault-panel.ts'
import { patientFetch } from './patient-fetch.ts'

/** A server of the walk and what is known of its game's manners. */
export interface Walker {
  readonly server: Server
  readonly node: WalkNode
  readonly character: Character
}

/** A node behind a cable of its own. */
export interface WalkNode {
  readonly node: FaultNode
  readonly cable: Cable
}

/** How a game behaves and how it is stopped. */
interface Character {
  readonly name: string
  readonly restartPolicy: 'never' | 'on-failure' | 'always'
  /** What is done before it says that it is ready. */
  readonly opening: string
  readonly stop: StopRule
}

const CHARACTERS: readonly (Character & { readonly at: 0 | 1 })[] = [
  { name: 'calm', at: 0, restartPolicy: 'never', opening: '', stop: {} },
  { name: 'slow', at: 1, restartPolicy: 'never', opening: 'sleep 0.4', stop: {} },
  {
    name: 'stubborn',
    at: 0,
    restartPolicy: 'never',
    opening: "trap '' INT",
    stop: { sendSignalTo: 'SIGINT', stopTimeoutSeconds: 1 },
  },
  { name: 'typed', at: 1, restartPolicy: 'on-failure', opening: '', stop: { stopCommand: 'stop' } },
  { name: 'restless', at: 0, restartPolicy: 'always', opening: '', stop: {} },
]

/**
 * A game that keeps its own book, `runs`: its process, each line that it has read, and with which code it ends. A run
 * without an end in the book was killed.
 */
function gameOf(opening: string): string {
  return `
say() { echo "$1" >> runs; }
trap 'say "end 0"; exit 0' TERM
say "start $$"
${opening}
echo ready
while read -r line; do
  case "$line" in
    exit*) say "end \${line#exit }"; exit "\${line#exit }" ;;
    stop) say "end 0"; exit 0 ;;
    *) say "line $line" ;;
  esac
done
say "end 9"
exit 9
`
}

/** How many clients walk at once. */
export const CLIENTS = 4

/** A daemon, two agents behind cables, five servers and four clients; all but the clients are processes of their own. */
export class WalkStage {
  readonly panel: FaultPanel
  /** Each with a key of its own. */
  readonly clients: readonly Client[]
  readonly nodes: readonly WalkNode[]
  readonly walkers: readonly Walker[]
  /** Faults that are being made up for: what is down is brought back by whoever took it down. */
  readonly down = new Set<unknown>()

  static async enter(): Promise<WalkStage> {
    const panel = await FaultPanel.enter()
    const nodes: WalkNode[] = []
    const walkers: Walker[] = []
    const clients: Client[] = []
    try {
      for (let number = 1; number <= CLIENTS; number++) {
        const body = { name: `client ${number}`, allPermissions: true, rateLimitEnabled: false }
        const { key } = await panel.client.call(createApiKey, { body })
        clients.push(createClient({ baseUrl: panel.url, token: key, fetch: patientFetch }))
      }
      for (const name of ['east', 'west']) {
        const cable = await Cable.lay(panel.url)
        nodes.push({ node: await panel.addMachine(name, { url: cable.url }), cable })
      }
      for (const character of CHARACTERS) {
        const node = nodes[character.at]
        if (node === undefined) throw new Error('no such node')
        const { name, restartPolicy, opening, stop } = character
        const templateId = await panel.makeTemplate(name, gameOf(opening), stop)
        const server = await panel.makeServer(node.node, { name, templateId, restartPolicy, maxCrashCount: 3 })
        walkers.push({ server, node, character })
      }
    } catch (error) {
      await new WalkStage(panel, clients, nodes, walkers).leave()
      throw error
    }
    return new WalkStage(panel, clients, nodes, walkers)
  }

  private constructor(
    panel: FaultPanel,
    clients: readonly Client[],
    nodes: readonly WalkNode[],
    walkers: readonly Walker[],
  ) {
    this.panel = panel
    this.clients = clients
    this.nodes = nodes
    this.walkers = walkers
  }

  /** SIGKILL and, after so many milliseconds, a new daemon; nothing when it is down already. */
  async killDaemon(awayMs: number): Promise<void> {
    await this.#downFor(
      this.panel,
      awayMs,
      () => this.panel.killDaemon(),
      () => this.panel.startDaemon(),
    )
  }

  async killAgent(at: WalkNode, awayMs: number): Promise<void> {
    await this.#downFor(
      at.node,
      awayMs,
      () => this.panel.killAgent(at.node),
      async () => this.startAgent(at),
    )
  }

  async cutCable(at: WalkNode, awayMs: number): Promise<void> {
    await this.#downFor(
      at.cable,
      awayMs,
      async () => at.cable.cut(),
      async () => at.cable.mend(),
    )
  }

  /** Frames that were sent together arrive one after the other for a while. */
  async slowCable(at: WalkNode, awayMs: number): Promise<void> {
    await this.#downFor(
      at.cable,
      awayMs,
      async () => at.cable.slow(),
      async () => at.cable.mend(),
    )
  }

  async freezeDaemon(awayMs: number): Promise<void> {
    await this.#freeze(this.panel, awayMs, async () => [this.panel.daemonPid])
  }

  async freezeAgent(at: WalkNode, awayMs: number): Promise<void> {
    await this.#freeze(at.node, awayMs, async () => [at.node.agent?.pid ?? []].flat())
  }

  /** Freezes what belongs to a server: processes that are there at this moment. */
  async freezeProcesses(key: unknown, awayMs: number, pids: () => Promise<readonly number[]>): Promise<void> {
    await this.#freeze(key, awayMs, pids)
  }

  startAgent({ node, cable }: WalkNode): void {
    this.panel.startAgent(node, { url: cable.url })
  }

  async leave(): Promise<void> {
    for (const { cable } of this.nodes) cable.mend()
    await this.panel.leave()
    for (const { cable } of this.nodes) await cable.remove()
  }

  /** SIGSTOP, and SIGCONT after so many milliseconds: a process that stands still answers nothing and closes nothing. */
  async #freeze(what: unknown, awayMs: number, find: () => Promise<readonly number[]>): Promise<void> {
    let pids: readonly number[] = []
    const signal = async (name: NodeJS.Signals): Promise<void> => {
      for (const pid of pids) sendSignal(pid, name)
    }
    await this.#downFor(
      what,
      awayMs,
      async () => {
        pids = await find()
        await signal('SIGSTOP')
      },
      () => signal('SIGCONT'),
    )
  }

  async #downFor(what: unknown, awayMs: number, take: () => Promise<void>, bring: () => Promise<void>): Promise<void> {
    if (this.down.has(what)) return
    this.down.add(what)
    try {
      await take()
      await new Promise((resolve) => setTimeout(resolve, awayMs))
      await bring()
    } finally {
      this.down.delete(what)
    }
  }
}

/** Sends a signal to a process that may have ended before. */
export function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended before.
  }
}
