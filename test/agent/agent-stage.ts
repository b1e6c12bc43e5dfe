import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { DIST } from '../run-panel.ts'
import { GatewayPeer } from './gateway-peer.ts'

const NOBODY = 65534

type Program = readonly [string, ...string[]]

/** What starts a holder, and an agent that takes its options from a file; both as they were built. */
export const HOLDER: Program = [process.execPath, join(DIST, 'bin', 'panel.js'), '__holder']
const AGENT: Program = [process.execPath, join(DIST, 'bin', 'agent-program.js')]

/** An agent as a process of its own, with a daemon's peer that it talks to. Everything is removed by `leave`. */
export class AgentStage {
  readonly dataDir: string
  readonly peer: GatewayPeer
  /** What the next agent starts holders with. */
  holder = HOLDER
  /** Where its container engine listens, and what containers are connected to. */
  docker: {
    readonly sockets: readonly string[]
    readonly network: string
    readonly registries?: Readonly<Record<string, { readonly username: string; readonly passwordFile: string }>>
  } = { sockets: [], network: 'host' }
  /** How many servers the next agent starts at the same time by itself. */
  starts: { readonly atOnce?: number } = {}
  /** Folders of the machine that its servers may have. */
  mounts: readonly { readonly source: string; readonly readOnly: boolean }[] = []
  /** Where its local stores lie. */
  backups: { readonly folder?: string; readonly folders?: Readonly<Record<string, string>> } = {}
  /** Where files may be fetched from beside public addresses. */
  pull: { readonly allowedRanges?: readonly string[]; readonly allowedPorts?: readonly string[] } = {}
  /** Folders with servers of another panel. */
  migration: { readonly roots?: readonly string[] } = {}
  readonly #workDir: string
  readonly #program: Program
  #agent: ChildProcess | undefined
  #output = ''

  /** `above`: the folder that its data folder is made in. */
  static async enter(above = tmpdir()): Promise<AgentStage> {
    const workDir = await mkdtemp(join(above, 'panel-stage-'))
    return new AgentStage(workDir, AGENT, await GatewayPeer.listen())
  }

  /** The same with an agent that is no root: as it is for an ordinary user, else as the user nobody. */
  static async enterAsOrdinaryUser(): Promise<AgentStage> {
    if (process.getuid?.() !== 0) return await AgentStage.enter()
    const workDir = await mkdtemp(join(tmpdir(), 'panel-stage-'))
    await chown(workDir, NOBODY, NOBODY)
    const asNobody = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'] as const
    return new AgentStage(workDir, [...asNobody, ...AGENT], await GatewayPeer.listen())
  }

  private constructor(workDir: string, program: Program, peer: GatewayPeer) {
    this.#workDir = workDir
    this.#program = program
    this.dataDir = join(workDir, 'data')
    this.peer = peer
  }

  get output(): string {
    return this.#output
  }

  /** Of the agent that runs now. */
  get pid(): number {
    return this.#agent?.pid ?? 0
  }

  /** Starts the agent and waits until the daemon's peer has its snapshot. */
  async startAgent(): Promise<void> {
    const before = this.peer.of('snapshot').length
    await this.spawnAgent()
    await this.peer.until('the agent to connect', () => this.peer.of('snapshot').length > before)
  }

  async spawnAgent(): Promise<ChildProcess> {
    const options = {
      dataDir: this.dataDir,
      connect: { url: this.peer.url, nodeId: 'node_test', nodeKey: 'pnk_test' },
      holder: this.holder,
      docker: this.docker,
      starts: this.starts,
      mounts: this.mounts,
      backups: this.backups,
      pull: this.pull,
      migration: this.migration,
      version: '0.0.0-test',
    }
    const file = join(this.#workDir, 'options.json')
    await writeFile(file, JSON.stringify(options))
    const [program, ...args] = this.#program
    const agent = spawn(program, [...args, file], { stdio: ['ignore', 'pipe', 'pipe'] })
    const collect = (chunk: Buffer): void => {
      this.#output += chunk.toString()
    }
    agent.stdout.on('data', collect)
    agent.stderr.on('data', collect)
    this.#agent = agent
    return agent
  }

  /** Starts another agent on the same folder and waits for its end. */
  async spawnSecond(): Promise<{ code: number | null; output: string }> {
    const first = this.#agent
    const before = this.#output.length
    const second = await this.spawnAgent()
    this.#agent = first
    await once(second, 'close')
    return { code: second.exitCode, output: this.#output.slice(before) }
  }

  /** Ends the agent without a word, at whatever it is doing. */
  async killAgent(): Promise<void> {
    await this.#endAgent('SIGKILL')
  }

  async stopAgent(): Promise<void> {
    await this.#endAgent('SIGTERM')
  }

  async #endAgent(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const agent = this.#agent
    this.#agent = undefined
    if (agent === undefined || agent.exitCode !== null || agent.signalCode !== null) return
    const ended = once(agent, 'exit')
    agent.kill(signal)
    await ended
  }

  /** Deletes what still runs and removes every file. */
  async leave(serverIds: readonly string[]): Promise<void> {
    this.peer.acknowledges = true
    if (this.#agent === undefined) await this.startAgent()
    for (const serverId of serverIds) {
      await this.peer.order(serverId, 1_000_000, { op: 'kill' })
      await this.peer.order(serverId, 1_000_001, { op: 'delete', keepFiles: false })
    }
    await this.stopAgent()
    await this.peer.close()
    await rm(this.#workDir, { recursive: true, force: true })
  }
}

/** A small game: says `ready`, answers typed lines, stops at `stop`, fails at `crash`. */
export const GAME = `
echo "hello from $P_SERVER_UUID"
echo ready
while read -r line; do
  case "$line" in
    stop) echo bye; exit 0 ;;
    crash) exit 3 ;;
    flood) i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done ;;
    *) echo "got $line" ;;
  esac
done
`

/** A specification of the small game, or of what `change` makes of it. */
export function gameSpec(serverId: string, generation: number, change: Partial<ServerSpec> = {}): ServerSpec {
  return {
    serverId,
    uuid: '0193d5a0-0000-7000-8000-000000000001',
    name: 'test',
    generation,
    runtime: 'process',
    startup: GAME,
    stop: { type: 'command', value: 'stop', timeoutMs: 10_000 },
    done: [{ kind: 'contains', value: 'ready' }],
    stripAnsi: false,
    env: {},
    limits: { memoryMb: 256, swapMb: 0, cpuCores: 1, diskMb: 100, pids: 64 },
    ports: [],
    restart: { policy: 'on-failure', maxCrashes: 5 },
    suspended: false,
    install: null,
    console: { logMb: 8 },
    ...change,
  }
}

/** Whether a process is alive and no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    return !['Z', 'X'].includes(text.slice(text.lastIndexOf(')') + 2, text.lastIndexOf(')') + 3))
  } catch {
    return false // no such process
  }
}
