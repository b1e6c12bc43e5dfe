import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createDeploymentToken, createNode, getNode } from '../../src/shared/api/nodes.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import { createServer, deleteServer, getServer, listServers, type Server } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import { quietPort } from '../ports.ts'
import { DIST, type Ran, runPanel, SFTP_HERE } from '../run-panel.ts'
import { allEvents, type PanelEvent } from './sse.ts'
import { until } from './wait.ts'

const SETUP_TOKEN = 'a-setup-token-for-tests-only'

/** Daemon and agent as two processes of the real binary on one machine, which can be killed one by one. */
export class SplitPanel {
  readonly home: string
  readonly url: string
  readonly #port: number
  #token = ''
  #nodeId = ''
  #locationId = ''
  #daemon: ChildProcess | undefined
  #agent: ChildProcess | undefined
  #log = ''

  /** Starts both: the daemon is set up, the agent is enrolled and online. */
  static async enter(): Promise<SplitPanel> {
    const home = await mkdtemp(join(tmpdir(), 'panel-e2e-'))
    await chmod(home, 0o711)
    const panel = new SplitPanel(home, await quietPort())
    try {
      await panel.#begin()
    } catch (error) {
      await panel.#remove()
      throw new Error(`${String(error)}\n${panel.log.slice(-3000)}`, { cause: error })
    }
    return panel
  }

  private constructor(home: string, port: number) {
    this.home = home
    this.#port = port
    this.url = `http://127.0.0.1:${port}`
  }

  get client(): Client {
    return createClient({ baseUrl: this.url, token: this.#token, fetch })
  }

  get token(): string {
    return this.#token
  }

  /** What daemon and agent have logged. */
  get log(): string {
    return this.#log
  }

  /** The processes of daemon and agent. */
  pids(): number[] {
    return [this.#daemon?.pid, this.#agent?.pid].flatMap((pid) => pid ?? [])
  }

  /** How large the parts of interrupted uploads in a server's folder are. */
  async partOf(serverId: string): Promise<number> {
    const folder = this.filesOf(serverId)
    const names = (await readdir(folder)).filter((name) => name.startsWith('.panel-upload-'))
    const sizes = names.map(async (name) => (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0)
    return (await Promise.all(sizes)).reduce((all, size) => all + size, 0)
  }

  filesOf(serverId: string): string {
    return join(this.home, 'agent', 'servers', serverId)
  }

  /** The command line, signed in as the administrator. */
  run(
    args: readonly string[],
    options: { input?: string; env?: Record<string, string>; onStart?: (pid: number) => void } = {},
  ): Promise<Ran> {
    return runPanel(args, { ...options, env: { ...this.#env(), ...options.env } })
  }

  /** The environment of a command line that is signed in. */
  environment(): Record<string, string> {
    return this.#env()
  }

  /** Follows a stream until a line contains `text` and ends it by Ctrl-C; `cause` is done once the stream is open. */
  async follow(args: readonly string[], text: string, cause: () => Promise<unknown>): Promise<string> {
    let line: string | undefined
    const ran = runPanel([...args, '--debug'], {
      env: this.#env(),
      onError: (stderr) => {
        if (line === undefined && /< 200 GET \S*events/.test(stderr)) {
          line = ''
          void cause()
        }
        return undefined
      },
      onOutput: (stdout) => {
        const found = stdout
          .split('\n')
          .slice(0, -1)
          .find((one) => one.includes(text))
        if (found === undefined) return undefined
        line = found
        return 'SIGINT'
      },
    })
    const { code, stderr } = await ran
    if (code !== 130 || line === undefined) throw new Error(`${args.join(' ')} ended with ${code}: ${stderr}`)
    return line
  }

  async startDaemon(): Promise<void> {
    const args = ['daemon', 'run', '--listen', `127.0.0.1:${this.#port}`, '--data-dir', join(this.home, 'daemon')]
    this.#daemon = this.spawn(args)
    await until('the daemon is ready', async () => (await fetch(`${this.url}/readyz`)).ok)
  }

  async startAgent(): Promise<void> {
    this.#agent = this.spawn(['agent', 'run', '--data-dir', join(this.home, 'agent')])
  }

  async killDaemon(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await end(this.#daemon, signal)
  }

  async killAgent(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await end(this.#agent, signal)
  }

  /** Resolves when the daemon sees the agent, whose wait grows to 30 s when it is cut off again and again. */
  async online(): Promise<void> {
    await until('the node is online', async () => (await this.#node()).isOnline, 45_000)
  }

  async #node() {
    return await this.client.call(getNode, { params: { nodeId: this.#nodeId } })
  }

  /** A template of one shell script; its name is that of the first server. */
  async makeTemplate(name: string, script: string): Promise<string> {
    const { id } = await this.client.call(createTemplate, {
      body: {
        name,
        runtimes: ['process'],
        startup: 'exec sh ./game.sh',
        stopCommand: '',
        sendSignalTo: 'SIGTERM',
        stopTimeoutSeconds: 5,
        startupDetection: { done: [{ kind: 'contains', value: 'ready' }] },
        installEntrypoint: 'sh',
        installScript: `cat > "\${MNT_SERVER:-.}/game.sh" <<'END'\n${script}\nEND\n`,
        allocatedMemoryMb: 64,
        allocatedCpuCores: 0.5,
      },
    })
    return id
  }

  /** Creates a server and waits until it is installed, and running where `start` says so. */
  async makeServer(
    name: string,
    templateId: string,
    request: {
      start?: boolean
      restartPolicy?: 'never' | 'on-failure' | 'always'
      port?: number
      diskMb?: number
    } = {},
  ): Promise<Server> {
    const made = await this.client.call(createServer, {
      body: {
        name,
        templateId,
        nodeId: this.#nodeId,
        locationId: this.#locationId,
        allocatedMemoryMb: 64,
        allocatedCpuCores: 0.5,
        allocatedDiskMb: request.diskMb ?? 64,
        primaryPort: request.port ?? (await quietPort()),
        restartPolicy: request.restartPolicy ?? 'never',
        start: request.start ?? false,
      },
    })
    return await this.serverWhen(made.id, 'installed', (server) =>
      request.start === true ? server.status === 'running' : server.installed && server.status === 'stopped',
    )
  }

  async server(id: string): Promise<Server> {
    return await this.client.call(getServer, { params: { serverId: id } })
  }

  /** The server as soon as it is as requested. */
  async serverWhen(id: string, what: string, isSo: (server: Server) => boolean): Promise<Server> {
    let seen: Server | undefined
    try {
      return await until(`server ${what}`, async () => {
        seen = await this.server(id)
        return isSo(seen) ? seen : undefined
      })
    } catch (error) {
      throw new Error(`${String(error)}\n${JSON.stringify(seen)}\n${this.#log.slice(-3000)}`)
    }
  }

  /** Gives an order and resolves when it is accepted (202). */
  async order(id: string, action: 'start' | 'stop' | 'restart' | 'kill'): Promise<string> {
    const { commandId } = await this.client.call(powerServer, { params: { serverId: id }, body: { action } })
    return commandId
  }

  /** Everything that the event log holds of a server, oldest first. */
  async events(id: string): Promise<PanelEvent[]> {
    return (await allEvents(`${this.url}/api/admin/events`, this.#token)).filter((event) => event.serverId === id)
  }

  /** Deletes all servers, ends both processes and removes the folder. */
  async leave(): Promise<void> {
    try {
      await this.#removeServers()
    } finally {
      await this.#remove()
    }
  }

  async #remove(): Promise<void> {
    await this.killAgent('SIGTERM')
    await this.killDaemon('SIGTERM')
    await rm(this.home, { recursive: true, force: true })
  }

  async #removeServers(): Promise<void> {
    if (this.#nodeId === '') return
    if (this.#daemon?.exitCode !== null || this.#daemon.signalCode !== null) await this.startDaemon()
    if (this.#agent?.exitCode !== null || this.#agent.signalCode !== null) await this.startAgent()
    await this.online()
    for (const { id, status } of await this.#allServers()) {
      if (!['stopped', 'error'].includes(status)) {
        await this.order(id, 'kill').catch(() => undefined) // it may have ended in this moment; the deletion tells
        await this.serverWhen(id, 'stopped', (server) => ['stopped', 'error', 'crashed'].includes(server.status))
      }
      await this.client.call(deleteServer, { params: { serverId: id }, query: {} })
    }
    await until('all servers are gone', async () => (await this.client.call(listServers, {})).length === 0)
  }

  async #allServers(): Promise<Pick<Server, 'id' | 'status'>[]> {
    const found: Pick<Server, 'id' | 'status'>[] = []
    for (let page = 1; ; page++) {
      const here = await this.client.call(listServers, { query: { limit: 100, page } })
      found.push(...here)
      if (here.length < 100) return found
    }
  }

  async #begin(): Promise<void> {
    await this.startDaemon()
    const { token } = await createClient({ baseUrl: this.url, fetch }).call(completeSetup, {
      body: {
        email: 'root@example.org',
        username: 'root',
        password: 'Correct horse 9 battery!',
        setupToken: SETUP_TOKEN,
      },
    })
    this.#token = token
    const location = await this.client.call(createLocation, { body: { name: 'here' } })
    this.#locationId = location.id
    const node = await this.client.call(createNode, {
      body: {
        name: 'box',
        locationId: location.id,
        hostname: 'box',
        publicAddress: '127.0.0.1',
        defaultIp: '127.0.0.1',
        maxMemoryMb: 8192,
        maxCpuCores: 64,
      },
    })
    this.#nodeId = node.id
    const made = await this.client.call(createDeploymentToken, { params: { nodeId: node.id }, body: {} })
    const enroll = ['agent', 'enroll', '--url', this.url, '--token-stdin', '--data-dir', join(this.home, 'agent')]
    const enrolled = await this.run(enroll, { input: made.deploymentToken })
    if (enrolled.code !== 0) throw new Error(`enrolment failed: ${enrolled.stderr}`)
    await this.startAgent()
    await this.online()
  }

  #env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      // The panel itself is a source of files to fetch.
      PANEL_PULL__ALLOWED_RANGES: '127.0.0.1/32',
      PANEL_PULL__ALLOWED_PORTS: '1024-65535',
      ...SFTP_HERE,
      HOME: this.home,
      PANEL_URL: this.url,
      PANEL_TOKEN: this.#token,
      PANEL_SETUP_TOKEN: SETUP_TOKEN,
      PANEL_CREDENTIAL_KEY: 'ab'.repeat(32),
      PANEL_LIMITS__REQUESTS_PER_MINUTE: '1000000',
      PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: '1000000',
    }
  }

  /** Starts the program with the stage's environment; its output goes to the log. */
  spawn(args: readonly string[]): ChildProcess {
    const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), ...args], {
      env: this.#env(),
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const collect = (chunk: Buffer): void => {
      this.#log += chunk.toString()
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    return child
  }
}

async function end(child: ChildProcess | undefined, signal: NodeJS.Signals): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}
