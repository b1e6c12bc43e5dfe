import { createHash } from 'node:crypto'
import { access, mkdir, readFile } from 'node:fs/promises'
import { newIdSuffix } from '../../../shared/kernel/ids.ts'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { RuntimeReport } from '../../../shared/protocol/node.ts'
import { record } from '../../engine/container-state.ts'
import { Engine } from '../../engine/engine.ts'
import { AgentFailure } from '../../failure.ts'
import type { LaunchFile } from '../../holder/holder-files.ts'
import { errorText } from '../../logger.ts'
import { heldConsole } from '../held-console.ts'
import type { HeldRuns } from '../held-runs.ts'
import { giveTo } from '../ownership.ts'
import type { Run, RunKind, RunPlan, Runtime, ServerPlace } from '../runtime.ts'
import type { ServerUsers } from '../server-users.ts'
import { socketPath } from '../socket-place.ts'
import { CONTAINER_HOMES, containerPlan } from './container-plan.ts'
import { type Credentials, type ImageFacts, presentImage, pullImage, registryOf } from './images.ts'

/** What the docker runtime is made with. */
export interface DockerRuntimeOptions {
  readonly dataDir: string
  readonly runs: HeldRuns
  readonly users: ServerUsers
  /** Where an engine may listen; the first socket that is there counts. */
  readonly sockets: readonly string[]
  /** What containers are connected to: `bridge`, `host` or a network of the engine. */
  readonly network: string
  /** Accounts at registries, by their hosts; a password is read from its file at each pull. */
  readonly registries: Readonly<Record<string, RegistryAccount>>
  readonly clock: Clock
}

/** An account at a registry, as it is kept on the node. */
export interface RegistryAccount {
  readonly username: string
  readonly passwordFile: string
}

/** How often a pull says how far it is. */
const PROGRESS_MS = 5000
/** Variables that the machine's programs need, and that would hide what the image has in their place. */
const MACHINE_VARIABLES: ReadonlySet<string> = new Set(['PATH', 'PANEL_NODE'])
/** The oldest API (version 1.41) with all that is used here. */
const OLDEST_API = 41

/** Runs servers in containers of Docker, or of whatever speaks its API. */
export class DockerRuntime implements Runtime {
  readonly name = 'docker' as const
  readonly #options: DockerRuntimeOptions
  readonly #agentLabel: string

  constructor(options: DockerRuntimeOptions) {
    this.#options = options
    this.#agentLabel = createHash('sha256').update(options.dataDir).digest('hex').slice(0, 16)
  }

  async probe(): Promise<RuntimeReport> {
    const socket = await this.#socket()
    if (socket === undefined)
      return unavailable('', `No container engine listens on ${this.#options.sockets.join(' or ')}`)
    try {
      const { version, api, info } = await engineFacts(new Engine(socket))
      if (api < OLDEST_API)
        return unavailable(version, `The engine ${version} is too old: Docker 20.10 or newer is needed`)
      const isLimited = info['MemoryLimit'] === true && info['PidsLimit'] === true
      const limits = !isLimited ? 'unknown' : String(info['CgroupVersion']) === '2' ? 'cgroup-v2' : 'cgroup-v1'
      return {
        name: 'docker',
        version,
        ok: true,
        reason: null,
        isolation: 'container',
        mounts: 'private',
        limits,
        userNamespaces: 'unknown',
        terminals: true,
        capabilities: ['isolation: container', `limits: ${limits}`],
      }
    } catch (error) {
      return unavailable('', `The container engine at ${socket} cannot be used: ${errorText(error)}`.slice(0, 500))
    }
  }

  async home(_place: ServerPlace, kind: RunKind): Promise<string> {
    return CONTAINER_HOMES[kind]
  }

  async prepare(place: ServerPlace): Promise<void> {
    await mkdir(place.files, { recursive: true, mode: 0o700 })
    if (isRoot()) await giveTo(place.files, await this.#uidOf(place))
  }

  async start(place: ServerPlace, plan: RunPlan): Promise<Run> {
    return await this.#options.runs.start(place, plan.launchId, () => this.#launchFile(place, plan))
  }

  async #launchFile(place: ServerPlace, plan: RunPlan): Promise<LaunchFile> {
    const { dataDir, clock, network } = this.#options
    const socket = await this.#socket()
    if (socket === undefined) throw new AgentFailure('UNSUPPORTED', 'The container engine of this node is not running')
    const engine = new Engine(socket)
    const { init } = await engineFacts(engine).catch((error: unknown) => {
      throw new AgentFailure('UNSUPPORTED', `The container engine of this node cannot be used: ${errorText(error)}`)
    })
    if (plan.image === null) throw new AgentFailure('BAD_REQUEST', 'The server has no container image')
    const image = await this.#image(place, engine, plan.image)
    const { kind, launchId, limits, logMb, masked } = plan
    const env = Object.fromEntries(Object.entries(plan.env).filter(([name]) => !MACHINE_VARIABLES.has(name)))
    const labels = { 'panel.server': place.serverId, 'panel.run': launchId, 'panel.agent': this.#agentLabel }
    const container = containerPlan(
      { ...plan, env },
      {
        files: place.files,
        uid: await this.#uidOf(place),
        isRoot: isRoot(),
        image: plan.image,
        ...image,
        init,
        network,
        labels,
      },
    )
    const run = {
      serverId: place.serverId,
      runtime: this.name,
      kind,
      launchId,
      socket: await socketPath(dataDir, place.serverId),
      logMb,
      newEpoch: newIdSuffix(clock),
      limits,
      ...(masked === undefined ? {} : { masked }),
      ...heldConsole(plan, place.files),
      isolation: { uid: null, mounts: false, cgroup: null },
      container: { socket, name: `panel-${this.#agentLabel}-${place.serverId}`, init, ownNetwork: network !== 'host' },
    }
    return { run, argv: plan.argv, env: {}, files: place.files, container }
  }

  /** Pulls an image that is not there; one that is there and has a changing name is asked for anew before an installation. */
  async #image(place: ServerPlace, engine: Engine, name: string): Promise<ImageFacts> {
    const { runs, clock } = this.#options
    const present = await presentImage(engine, name)
    if (present !== undefined) return present
    await runs.note(place, `Pulling the image ${name}`)
    let saidMs = clock.monotonicMs()
    let last = ''
    const credentials = await this.#credentials(name)
    const progress = (text: string): void => {
      if (clock.monotonicMs() - saidMs < PROGRESS_MS || text === last) return
      saidMs = clock.monotonicMs()
      last = text
      void runs.note(place, `Pulling the image ${name}: ${text}`).catch(() => undefined) // the pull itself goes on
    }
    await pullImage(engine, name, { credentials, progress })
    const pulled = await presentImage(engine, name)
    if (pulled === undefined)
      throw new AgentFailure('UNSUPPORTED', `The image ${name} is not there after it was pulled`)
    await runs.note(place, `The image ${name} is there`)
    return pulled
  }

  async #credentials(image: string): Promise<Credentials | undefined> {
    const registry = registryOf(image)
    const account = Object.hasOwn(this.#options.registries, registry) ? this.#options.registries[registry] : undefined
    if (account === undefined) return undefined
    try {
      return { username: account.username, password: (await readFile(account.passwordFile, 'utf8')).trim() }
    } catch (error) {
      throw new AgentFailure('UNSUPPORTED', `The password for ${registry} cannot be read: ${errorText(error)}`)
    }
  }

  async #uidOf(place: ServerPlace): Promise<number> {
    return isRoot() ? await this.#options.users.uidOf(place.serverId) : (process.getuid?.() ?? 0)
  }

  async #socket(): Promise<string | undefined> {
    for (const socket of this.#options.sockets) {
      try {
        await access(socket)
        return socket
      } catch {
        // nobody listens there, or not for this user
      }
    }
    return undefined
  }
}

function isRoot(): boolean {
  return process.getuid?.() === 0
}

async function engineFacts(
  engine: Engine,
): Promise<{ version: string; api: number; init: boolean; info: Record<string, unknown> }> {
  const [version, info] = await Promise.all([
    engine.json({ method: 'GET', path: '/version' }).then(record),
    engine.json({ method: 'GET', path: '/info' }).then(record),
  ])
  const initCommit = record(info['InitCommit'] ?? {})['ID']
  const init = typeof initCommit === 'string' && initCommit !== 'N/A'
  const name = `${String(version['Version'])}`.slice(0, 64)
  return { version: name, api: Number(String(version['ApiVersion']).split('.')[1]), init, info }
}

function unavailable(version: string, reason: string): RuntimeReport {
  return { name: 'docker', version, ok: false, reason, capabilities: [] }
}
