import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { z } from 'zod'
import { completeSetup } from '../../src/shared/api/auth.ts'
import { createLocation } from '../../src/shared/api/locations.ts'
import { createDeploymentToken, createNode, getNode } from '../../src/shared/api/nodes.ts'
import { powerServer } from '../../src/shared/api/power.ts'
import { deleteServer, type Server } from '../../src/shared/api/servers.ts'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { type Client, createClient } from '../../src/shared/client.ts'
import type { TemplateId } from '../../src/shared/kernel/ids.ts'
import { quietPort } from '../ports.ts'
import { DIST, runPanel, SFTP_HERE } from '../run-panel.ts'
import { until } from './waiting.ts'

const SETUP_TOKEN = 'a-setup-token-for-the-bench'
/** Who has set the panel up. */
export const ROOT = { email: 'root@example.org', password: 'Correct horse 9 battery!' } as const
/** A folder for CPU profiles of the daemon; each is written when the daemon ends. */
const PROFILES = process.env['PANEL_BENCH_PROFILES']

/** What `./panel` sets for what it starts, and the options that it gives Node. */
export const AS_STARTED = { MALLOC_ARENA_MAX: '2', MALLOC_MMAP_THRESHOLD_: '70000' } as const
export const STARTED_WITH = ['--v8-pool-size=1'] as const

const RAISED = {
  PANEL_LIMITS__REQUESTS_PER_MINUTE: '100000000',
  PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: '100000000',
  PANEL_LIMITS__FILE_REQUESTS_PER_MINUTE: '100000000',
  PANEL_LIMITS__CONSOLE_COMMANDS_PER_MINUTE: '100000000',
  PANEL_LIMITS__STREAMS_PER_SERVER: '100000',
  PANEL_LIMITS__STREAMS_PER_USER: '100000',
}

type TemplateBody = z.input<typeof NewTemplate>

/** Daemon and agent of the real binary as processes of their own, with an administrator, a location and a node. */
export class BenchPanel {
  readonly home: string
  readonly url: string
  readonly #port: number
  readonly #limits: 'raised' | 'as shipped'
  #token = ''
  #nodeId = ''
  #locationId = ''
  #daemon: ChildProcess | undefined
  #agent: ChildProcess | undefined
  #log = ''

  /** A fresh installation with a running daemon; there is no agent yet. Limits of clients are out of the way, or as shipped. */
  static async enter(limits: 'raised' | 'as shipped' = 'raised'): Promise<BenchPanel> {
    const home = await mkdtemp(join(tmpdir(), 'panel-bench-'))
    await chmod(home, 0o711)
    const panel = new BenchPanel(home, await quietPort(), limits)
    try {
      await panel.startDaemon()
      await panel.#setUp()
    } catch (error) {
      await panel.#remove()
      throw new Error(`${String(error)}\n${panel.#log.slice(-2000)}`, { cause: error })
    }
    return panel
  }

  private constructor(home: string, port: number, limits: 'raised' | 'as shipped') {
    this.home = home
    this.#limits = limits
    this.#port = port
    this.url = `http://127.0.0.1:${port}`
  }

  get client(): Client {
    return createClient({ baseUrl: this.url, token: this.#token, fetch })
  }

  get token(): string {
    return this.#token
  }

  get nodeId(): string {
    return this.#nodeId
  }

  get locationId(): string {
    return this.#locationId
  }

  get database(): string {
    return join(this.home, 'daemon', 'db', 'panel.db')
  }

  get daemonPid(): number {
    return pidOf(this.#daemon)
  }

  get agentPid(): number {
    return pidOf(this.#agent)
  }

  /** What a run of the command line needs to be signed in here. */
  get env(): Record<string, string> {
    return {
      PATH: process.env['PATH'] ?? '',
      ...SFTP_HERE,
      HOME: this.home,
      NODE_ENV: 'production',
      ...AS_STARTED,
      PANEL_URL: this.url,
      PANEL_TOKEN: this.#token,
      PANEL_SETUP_TOKEN: SETUP_TOKEN,
      PANEL_CREDENTIAL_KEY: 'ab'.repeat(32),
      PANEL_LOG__LEVEL: 'info',
      PANEL_HTTP__MAX_CONNECTIONS: '20000',
      ...(this.#limits === 'raised' ? RAISED : {}),
    }
  }

  /** Starts the daemon; resolves with the milliseconds until it has answered for the first time that it is ready. */
  async startDaemon(): Promise<number> {
    const began = performance.now()
    const args = ['daemon', 'run', '--listen', `127.0.0.1:${this.#port}`, '--data-dir', join(this.home, 'daemon')]
    const profile = PROFILES === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', PROFILES]
    this.#daemon = this.#spawn(args, profile)
    await until('the daemon to be ready', async () => (await fetch(`${this.url}/readyz`)).ok)
    return performance.now() - began
  }

  async stopDaemon(): Promise<void> {
    await end(this.#daemon)
  }

  /** Ends the daemon as a machine does that has no memory left. */
  async killDaemon(): Promise<void> {
    await end(this.#daemon, 'SIGKILL')
  }

  /** Enrols the agent and starts it; resolves when the daemon sees it. */
  async startAgent(): Promise<void> {
    const { client, nodeId } = this
    const made = await client.call(createDeploymentToken, { params: { nodeId }, body: {} })
    const dataDir = join(this.home, 'agent')
    const enroll = ['agent', 'enroll', '--url', this.url, '--token-stdin', '--data-dir', dataDir]
    const enrolled = await runPanel(enroll, { input: made.deploymentToken, env: this.env })
    if (enrolled.code !== 0) throw new Error(`enrolment failed: ${enrolled.stderr}`)
    const profile = PROFILES === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', PROFILES]
    this.#agent = this.#spawn(['agent', 'run', '--data-dir', dataDir], profile)
    await until('the node to be online', async () => (await client.call(getNode, { params: { nodeId } })).isOnline)
  }

  async makeTemplate(body: TemplateBody): Promise<TemplateId> {
    return (await this.client.call(createTemplate, { body })).id
  }

  /** Creates a server that starts as soon as it can; it need not run yet when this resolves. */
  async makeServer(
    request: Pick<Server, 'name' | 'templateId' | 'primaryPort'> & { environment?: Record<string, string> },
    { allocatedDiskMb = 64 }: { readonly allocatedDiskMb?: number } = {},
  ): Promise<string> {
    const size = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb }
    const place = { nodeId: this.#nodeId, locationId: this.#locationId }
    const body = { ...request, ...size, ...place, restartPolicy: 'never' as const, start: true }
    return (await this.#ask<{ id: string }>('/api/servers', body)).id
  }

  async running(serverId: string): Promise<void> {
    await until(`server ${serverId} to run`, async () => {
      return (await this.#ask<Pick<Server, 'status'>>(`/api/servers/${serverId}`)).status === 'running'
    })
  }

  /** Stops all games, ends daemon and agent, and removes the folder. */
  async leave(): Promise<void> {
    try {
      if (this.#agent !== undefined) await this.#removeServers()
    } finally {
      await this.#remove()
    }
  }

  async #removeServers(): Promise<void> {
    await until(
      'all servers to be gone',
      async () => {
        const servers = await this.#servers()
        for (const { id, status } of servers) {
          const params = { serverId: id }
          if (status === 'running' || status === 'starting') {
            await this.client.call(powerServer, { params, body: { action: 'kill' } }).catch(() => undefined) // tried again
          } else {
            await this.client.call(deleteServer, { params, query: {} }).catch(() => undefined) // as well
          }
        }
        return servers.length === 0
      },
      120_000,
    )
  }

  /** Without a schema: the other build of a comparison may have other fields. */
  async #servers(): Promise<readonly Pick<Server, 'id' | 'status'>[]> {
    return await this.#ask('/api/servers?limit=100')
  }

  async #ask<T>(path: string, body?: object): Promise<T> {
    const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'application/json' }
    const sent = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const answer = await fetch(this.url + path, { headers, ...sent })
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
    return ((await answer.json()) as { data: T }).data // what callers name is there in every version
  }

  async #remove(): Promise<void> {
    await end(this.#agent)
    await end(this.#daemon)
    await rm(this.home, { recursive: true, force: true })
  }

  async #setUp(): Promise<void> {
    const { token } = await createClient({ baseUrl: this.url, fetch }).call(completeSetup, {
      body: {
        ...ROOT,
        username: 'root',
        setupToken: SETUP_TOKEN,
      },
    })
    this.#token = token
    const { id: locationId } = await this.client.call(createLocation, { body: { name: 'here' } })
    const address = { hostname: 'box', publicAddress: '127.0.0.1', defaultIp: '127.0.0.1' }
    const size = { maxMemoryMb: 1_000_000, maxCpuCores: 1000 }
    const node = await this.client.call(createNode, { body: { name: 'box', locationId, ...address, ...size } })
    this.#locationId = locationId
    this.#nodeId = node.id
  }

  #spawn(args: readonly string[], nodeArgs: readonly string[]): ChildProcess {
    const child = spawn(process.execPath, [...STARTED_WITH, ...nodeArgs, join(DIST, 'bin', 'panel.js'), ...args], {
      env: this.env,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const collect = (chunk: Buffer): void => {
      this.#log = (this.#log + chunk.toString()).slice(-20_000)
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    return child
  }
}

function pidOf(child: ChildProcess | undefined): number {
  if (child?.pid === undefined) throw new Error('the process was not started')
  return child.pid
}

async function end(child: ChildProcess | undefined, signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM'): Promise<void> {
  if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill(signal)
  await ended
}
