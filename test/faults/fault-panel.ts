import { type ChildProcess, spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createDeploymentToken, createNode, getNode } from '../../src/shared/api/nodes.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import {
  createServer,
  deleteServer,
  getServer,
  listServers,
  type NewServer,
  type Server,
} from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import { allEvents, type PanelEvent } from '../e2e/sse.ts'
import { until } from '../e2e/wait.ts'
import { placeFile } from '../place-file.ts'
import { quietPort } from '../ports.ts'
import { DIST, type Ran, runPanel, SFTP_HERE } from '../run-panel.ts'
import { templateOf } from './machine.ts'
import { patientFetch } from './patient-fetch.ts'
import { end } from './process-end.ts'

const SETUP_TOKEN = 'a-setup-token-for-tests-only'

/** How a game is asked to stop. */
export interface StopRule {
  readonly stopCommand?: string
  readonly sendSignalTo?: 'SIGINT'
  readonly stopTimeoutSeconds?: number
}

/** How an agent is run. */
export interface AgentRun {
  /** The address at which it reaches the daemon, such as that of a cable that can be cut. */
  readonly url?: string
  readonly env?: Readonly<Record<string, string>>
}

/** A node, the data folder of its agent, and the agent's process. */
export interface FaultNode {
  readonly id: string
  readonly dir: string
  agent: ChildProcess | undefined
}

/** A daemon and any number of agents as processes of the real binary, each of which can be killed and started again. */
export class FaultPanel {
  readonly home: string
  readonly url: string
  readonly #port: number
  readonly #env: Readonly<Record<string, string>>
  readonly #nodes: FaultNode[] = []
  #daemon: ChildProcess | undefined
  #token = ''
  #locationId = ''
  #log = ''

  /** Starts the daemon and sets it up; `env` is added to the environment of every process. */
  static async enter(env: Readonly<Record<string, string>> = {}): Promise<FaultPanel> {
    const home = await mkdtemp(join(tmpdir(), 'panel-faults-'))
    await chmod(home, 0o711)
    const panel = new FaultPanel(home, await quietPort(), env)
    try {
      await panel.#begin()
    } catch (error) {
      await panel.#remove()
      throw new Error(`${String(error)}\n${panel.log.slice(-3000)}`, { cause: error })
    }
    return panel
  }

  private constructor(home: string, port: number, env: Readonly<Record<string, string>>) {
    this.home = home
    this.#port = port
    this.url = `http://127.0.0.1:${port}`
    this.#env = env
  }

  get client(): Client {
    return createClient({ baseUrl: this.url, token: this.#token, fetch: patientFetch })
  }

  get token(): string {
    return this.#token
  }

  /** What daemon and agents have logged. */
  get log(): string {
    return this.#log
  }

  /** The daemon's process; throws when it has ended. */
  get daemonPid(): number {
    const { pid, exitCode, signalCode } = this.#daemon ?? {}
    if (pid === undefined || exitCode !== null || signalCode !== null) {
      throw new Error(`the daemon has ended (${exitCode ?? signalCode})\n${this.#log.slice(-3000)}`)
    }
    return pid
  }

  /** The command line, signed in as the administrator. */
  run(args: readonly string[], options: { input?: string; env?: Record<string, string> } = {}): Promise<Ran> {
    return runPanel(args, { ...options, env: { ...this.environment(), ...options.env } })
  }

  /** The environment of a command line that is signed in. */
  environment(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      ...SFTP_HERE,
      HOME: this.home,
      PANEL_URL: this.url,
      PANEL_TOKEN: this.#token,
      PANEL_SETUP_TOKEN: SETUP_TOKEN,
      PANEL_CREDENTIAL_KEY: 'ab'.repeat(32),
      PANEL_LIMITS__REQUESTS_PER_MINUTE: '1000000',
      PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: '1000000',
      PANEL_LIMITS__CONSOLE_COMMANDS_PER_MINUTE: '1000000',
      ...this.#env,
    }
  }

  async startDaemon(): Promise<void> {
    const args = ['daemon', 'run', '--listen', `127.0.0.1:${this.#port}`, '--data-dir', join(this.home, 'daemon')]
    this.#daemon = this.#spawn(args)
    await until('the daemon is ready', () => this.isReady())
  }

  async isReady(): Promise<boolean> {
    const response = await patientFetch(`${this.url}/readyz`)
    await response.text()
    return response.ok
  }

  killDaemon(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    return end(this.#daemon, signal)
  }

  /** A node without an agent; `box` names it. */
  async addNode(box: string): Promise<FaultNode> {
    const node = await this.client.call(createNode, {
      body: {
        name: box,
        locationId: this.#locationId,
        hostname: box,
        publicAddress: '127.0.0.1',
        defaultIp: '127.0.0.1',
        maxMemoryMb: 8192,
        maxCpuCores: 64,
      },
    })
    const made: FaultNode = { id: node.id, dir: join(this.home, box), agent: undefined }
    this.#nodes.push(made)
    return made
  }

  /** A node whose agent is enrolled and online. */
  async addMachine(box: string, run: AgentRun = {}): Promise<FaultNode> {
    const node = await this.addNode(box)
    const made = await this.client.call(createDeploymentToken, { params: { nodeId: node.id }, body: {} })
    const enroll = ['agent', 'enroll', '--url', this.url, '--token-stdin', '--data-dir', node.dir]
    const enrolled = await this.run(enroll, { input: made.deploymentToken })
    if (enrolled.code !== 0) throw new Error(`enrolment failed: ${enrolled.stderr}`)
    this.startAgent(node, run)
    await this.online(node)
    return node
  }

  startAgent(node: FaultNode, run: AgentRun = {}): void {
    node.agent = this.spawnAgent(node.dir, run)
  }

  /** An agent on a folder, which the caller ends himself. */
  spawnAgent(dir: string, { url = this.url, env = {} }: AgentRun = {}): ChildProcess {
    return this.#spawn(['agent', 'run', '--data-dir', dir, '--panel-url', url], env)
  }

  async killAgent(node: FaultNode, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await end(node.agent, signal)
  }

  /** Resolves when the daemon sees the agent, or no longer does. */
  async online(node: FaultNode, wanted = true, withinMs = 20_000): Promise<void> {
    const look = async () => (await this.node(node)).isOnline === wanted
    await until(`${node.dir}: online is ${wanted}`, look, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${this.#log.slice(-4000)}`)
    })
  }

  async node(node: FaultNode) {
    return await this.client.call(getNode, { params: { nodeId: node.id } })
  }

  /** A template of one shell script; `stop` says how it is stopped if not by SIGTERM. */
  async makeTemplate(name: string, script: string, stop: StopRule = {}): Promise<string> {
    return (await this.client.call(createTemplate, { body: { ...templateOf(name, script), ...stop } })).id
  }

  /** A server on the node that is installed and runs. */
  async makeServer(
    node: FaultNode,
    request: { readonly name: string; readonly templateId: string } & Partial<
      Pick<NewServer, 'restartPolicy' | 'maxCrashCount'>
    >,
  ): Promise<Server> {
    const made = await this.client.call(createServer, {
      body: {
        restartPolicy: 'never',
        ...request,
        nodeId: node.id,
        locationId: this.#locationId,
        allocatedMemoryMb: 64,
        allocatedCpuCores: 0.5,
        allocatedDiskMb: 64,
        primaryPort: await quietPort(),
        start: true,
      },
    })
    return await this.serverWhen(made.id, 'running')
  }

  async server(id: string): Promise<Server> {
    return await this.client.call(getServer, { params: { serverId: id } })
  }

  async serverWhen(id: string, status: Server['status'], withinMs = 20_000): Promise<Server> {
    let seen: Server | undefined
    const look = async () => {
      seen = await this.server(id)
      return seen.status === status ? seen : undefined
    }
    return await until(`server ${status}`, look, withinMs).catch((error: unknown) => {
      throw new Error(`${String(error)}\n${JSON.stringify(seen)}\n${this.#log.slice(-4000)}`)
    })
  }

  /** Gives an order and resolves with its id when it is accepted (202). */
  async order(id: string, action: 'start' | 'stop' | 'restart' | 'kill'): Promise<string> {
    return (await this.client.call(powerServer, { params: { serverId: id }, body: { action } })).commandId
  }

  async events(id: string): Promise<PanelEvent[]> {
    return (await allEvents(`${this.url}/api/admin/events`, this.#token)).filter((event) => event.serverId === id)
  }

  /** The ends of orders that the event log tells of this server. */
  async orderEnds(id: string): Promise<Readonly<Record<string, unknown>>[]> {
    const reported = await this.events(id)
    return reported.filter(({ type }) => type === 'server_command_done').map(({ data }) => data)
  }

  fileOf(node: FaultNode, serverId: string, name: string): string {
    return join(node.dir, 'servers', serverId, name)
  }

  /** Puts a file into the server's folder. */
  async write(node: FaultNode, server: Server, file: { readonly name: string; readonly text: string }): Promise<void> {
    await placeFile(this.fileOf(node, server.id, file.name), file.text)
  }

  /** How often the game wrote `start` into its file `starts`. */
  async starts(node: FaultNode, server: Server): Promise<number> {
    const text = await readFile(this.fileOf(node, server.id, 'starts'), 'utf8').catch(() => '') // not started yet
    return text.split('\n').filter((line) => line === 'start').length
  }

  /** Deletes all servers of nodes that have an agent, ends every process and removes the folder. */
  async leave(): Promise<void> {
    try {
      if (this.#nodes.some(({ agent }) => agent !== undefined)) await this.#removeServers()
    } finally {
      await this.#remove()
    }
  }

  async #removeServers(): Promise<void> {
    for (const node of this.#nodes) if (node.agent !== undefined) await this.online(node)
    for (const { id, status, nodeId } of await this.client.call(listServers, { query: { limit: 100 } })) {
      const away = this.#nodes.find((node) => node.id === nodeId)?.agent === undefined
      if (!away && !['stopped', 'error', 'crashed'].includes(status)) {
        await this.order(id, 'kill').catch(() => undefined) // it may have ended in this moment; the deletion tells
        await this.serverWhen(id, 'stopped')
      }
      await this.client.call(deleteServer, { params: { serverId: id }, query: away ? { force: 'true' } : {} })
    }
    await until('all servers are gone', async () => (await this.client.call(listServers, {})).length === 0)
  }

  async #remove(): Promise<void> {
    for (const { agent } of this.#nodes) await end(agent, 'SIGTERM')
    await this.killDaemon('SIGTERM')
    await rm(this.home, { recursive: true, force: true })
  }

  async #begin(): Promise<void> {
    await this.startDaemon()
    const person = { email: 'root@example.org', username: 'root', password: 'Correct horse 9 battery!' }
    const setup = { body: { ...person, setupToken: SETUP_TOKEN } }
    this.#token = (await createClient({ baseUrl: this.url, fetch }).call(completeSetup, setup)).token
    this.#locationId = (await this.client.call(createLocation, { body: { name: 'here' } })).id
  }

  #spawn(args: readonly string[], env: Readonly<Record<string, string>> = {}): ChildProcess {
    const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), ...args], {
      env: { ...this.environment(), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const collect = (chunk: Buffer): void => {
      this.#log = (this.#log + chunk.toString()).slice(-1_000_000)
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    return child
  }
}
