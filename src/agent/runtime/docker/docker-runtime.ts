import { createHash } from 'node:crypto'
import { accessSync } from 'node:fs'
import { access, mkdir, readFile } from 'node:fs/promises'
import type { Clock } from '../../../shared/kernel/time.ts'
import type { RuntimeReport } from '../../../shared/protocol/node.ts'
import { record } from '../../engine/container-state.ts'
import { LABEL, ownContainers, removeContainer } from '../../engine/containers.ts'
import { Engine, EngineAway, EngineRefusal } from '../../engine/engine.ts'
import { isPodman } from '../../engine/engine-kind.ts'
import { AgentFailure, NodeUnready } from '../../failure.ts'
import type { LaunchFile } from '../../holder/holder-files.ts'
import { errorText } from '../../logger.ts'
import { refuseCpuSet } from '../cpu-set.ts'
import { heldRun } from '../held-run.ts'
import type { HeldRuns } from '../held-runs.ts'
import { giveTo } from '../ownership.ts'
import { findCgroups, optionalLimits } from '../process/cgroup-places.ts'
import type { OwnNetwork, RenewOptions, Run, RunKind, RunNetwork, RunPlan, Runtime, ServerPlace } from '../runtime.ts'
import type { ServerUsers } from '../server-users.ts'
import { CONTAINER_HOMES, containerPlan } from './container-plan.ts'
import { chooseNetwork } from './engine-networks.ts'
import { registryOf } from './image-name.ts'
import { type Credentials, type ImageFacts, type PullProgress, presentImage, pullImage } from './images.ts'

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
/** How long a look at all containers may take. */
const LOOK_MS = 3000
const NOT_RUNNING = 'The container engine of this node is not running'
const CATATONIT = ['/usr/libexec/podman/catatonit', '/usr/bin/catatonit']
const NEVER = new AbortController().signal
/** Variables that the machine's programs need, and that would hide what the image has in their place. */
const MACHINE_VARIABLES: ReadonlySet<string> = new Set(['PATH', 'PANEL_NODE'])
/** The oldest API (version 1.41) with all that is used here. */
const OLDEST_API = 41

/** Runs servers in containers of Docker, or of whatever speaks its API. */
export class DockerRuntime implements Runtime {
  readonly name = 'docker' as const
  readonly #options: DockerRuntimeOptions
  readonly #agentLabel: string
  #weights: Promise<{ readonly ioWeights: boolean }> | undefined

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
      const limits = !isLimited ? 'unknown' : isCgroupV2(info) ? 'cgroup-v2' : 'cgroup-v1'
      const { isRootless, isRemapped, hasSeccomp } = securityOf(info)
      const [cpuSets, ioWeights] = [info['CPUSet'] === true, await this.#hasIoWeights(info)]
      return {
        name: 'docker',
        version,
        ok: true,
        reason: null,
        isolation: 'container',
        mounts: 'private',
        limits,
        // The engine's own filter of system calls refuses them to programs without capabilities.
        userNamespaces: hasSeccomp ? 'off' : 'unknown',
        cpuSets,
        ioWeights,
        capabilities: [
          'isolation: container',
          `limits: ${limits}`,
          ...(isRootless ? ['engine: rootless'] : []),
          ...(isRemapped ? ['engine: user namespaces, not used by servers'] : []),
          `cpu sets: ${cpuSets ? 'yes' : 'no'}`,
          `I/O weights: ${ioWeights ? 'yes' : 'no'}`,
        ],
        terminals: true,
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

  async network(own: OwnNetwork | undefined): Promise<RunNetwork> {
    const engine = await this.#engine()
    if (engine === undefined) throw new NodeUnready('UNSUPPORTED', NOT_RUNNING)
    return await named(() => chooseNetwork(engine, this.#options.network, own))
  }

  async renew(place: ServerPlace, options: RenewOptions): Promise<void> {
    await named(() => this.#renew(place, options))
  }

  async #renew(place: ServerPlace, { image, signal, progress }: RenewOptions): Promise<void> {
    const engine = await this.#engine()
    if (engine === undefined) throw new NodeUnready('UNSUPPORTED', NOT_RUNNING)
    if (image === null) throw new AgentFailure('BAD_REQUEST', 'The server has no container image')
    const { runs } = this.#options
    const before = await presentImage(engine, image)
    try {
      await this.#pull(place, engine, { image, signal, progress })
      const after = await presentImage(engine, image)
      const isSame = before !== undefined && before.id === after?.id
      await runs.note(place, isSame ? `The image ${image} is the newest already` : `The image ${image} is new`)
    } catch (error) {
      if (before === undefined || signal.aborted || !(error instanceof AgentFailure)) throw error
      await runs.note(place, `${error.message}. The one that is there stays in use`)
    }
    await this.discard(place.serverId)
  }

  async start(place: ServerPlace, plan: RunPlan, signal: AbortSignal = NEVER): Promise<Run> {
    const file = (): Promise<LaunchFile> => named(() => this.#launchFile(place, plan, signal))
    return await this.#options.runs.start(place, plan.launchId, file)
  }

  /** Nothing while the engine is away: it is asked again. */
  async remains(): Promise<ReadonlySet<string>> {
    const engine = await this.#engine()
    if (engine === undefined) return new Set()
    try {
      const found = await ownContainers(engine, { agent: this.#agentLabel, signal: AbortSignal.timeout(LOOK_MS) })
      return new Set(found.map(({ serverId }) => serverId))
    } catch (error) {
      if (error instanceof EngineAway || error instanceof EngineRefusal) return new Set()
      throw error
    }
  }

  async discard(serverId: string): Promise<void> {
    const engine = await this.#engine()
    if (engine === undefined) return
    for (const { id } of await ownContainers(engine, { agent: this.#agentLabel, serverId }))
      await removeContainer(engine, id)
  }

  async #launchFile(place: ServerPlace, plan: RunPlan, signal: AbortSignal): Promise<LaunchFile> {
    const { dataDir, clock } = this.#options
    const engine = await this.#engine()
    if (engine === undefined) throw new NodeUnready('UNSUPPORTED', NOT_RUNNING)
    const facts = await engineFacts(engine).catch((error: unknown) => {
      throw new AgentFailure('UNSUPPORTED', `The container engine of this node cannot be used: ${errorText(error)}`)
    })
    await refuseCpuSet(plan.limits.cpuSet)
    await this.#noteMissing(place, plan, facts.info)
    if (plan.image === null) throw new AgentFailure('BAD_REQUEST', 'The server has no container image')
    const image = await this.#image(place, engine, { image: plan.image, signal })
    const network = await chooseNetwork(engine, this.#options.network, plan.kind === 'game' ? plan.network : undefined)
    const env = Object.fromEntries(Object.entries(plan.env).filter(([name]) => !MACHINE_VARIABLES.has(name)))
    const labels = { [LABEL.server]: place.serverId, [LABEL.run]: plan.launchId, [LABEL.agent]: this.#agentLabel }
    const { isRootless, isRemapped } = securityOf(facts.info)
    const container = containerPlan(
      { ...plan, env },
      {
        files: place.files,
        uid: await this.#uidOf(place),
        isRoot: isRoot(),
        isRootless,
        isRemapped,
        isCgroupV2: isCgroupV2(facts.info),
        image: plan.image,
        ...image,
        init: facts.init,
        network,
        labels,
      },
    )
    const run = await heldRun(place, plan, {
      runtime: this.name,
      dataDir,
      clock,
      isolation: { uid: null, mounts: false, cgroup: null },
      container: {
        socket: engine.socketPath,
        name: `panel-${this.#agentLabel}-${place.serverId}`,
        agent: this.#agentLabel,
        init: facts.init,
        ownNetwork: network.name !== 'host',
        ...(network.isOwn ? {} : { published: plan.ports }),
      },
    })
    return { run, argv: plan.argv, env: {}, files: place.files, container }
  }

  /** A limit that this machine cannot keep is not passed over in silence. */
  async #noteMissing(place: ServerPlace, { limits }: RunPlan, info: Record<string, unknown>): Promise<void> {
    const { runs } = this.#options
    if (limits.cpuSet !== undefined && info['CPUSet'] !== true)
      await runs.note(place, 'This node cannot keep it to its processors: its container engine does not allow it')
    if (limits.ioWeight !== undefined && !(await this.#hasIoWeights(info)))
      await runs.note(place, 'This node cannot give it its share of disk time: its kernel does not allow it')
  }

  /** No engine says it: with version 1 of the kernel's groups, the agent's own look does. */
  async #hasIoWeights(info: Record<string, unknown>): Promise<boolean> {
    if (isCgroupV2(info)) return true
    if (!isRoot()) return false
    this.#weights ??= findCgroups().then(optionalLimits)
    return (await this.#weights).ioWeights
  }

  /** The facts of an image, which is pulled when it is not there. */
  async #image(place: ServerPlace, engine: Engine, asked: { image: string; signal: AbortSignal }): Promise<ImageFacts> {
    const present = await presentImage(engine, asked.image)
    if (present !== undefined) return present
    await this.#pull(place, engine, { ...asked, progress: () => undefined })
    const pulled = await presentImage(engine, asked.image)
    if (pulled === undefined)
      throw new AgentFailure('UNSUPPORTED', `The image ${asked.image} is not there after it was pulled`)
    await this.#options.runs.note(place, `The image ${asked.image} is there`)
    return pulled
  }

  /** Pulls an image and says in the console how far that is. */
  async #pull(
    place: ServerPlace,
    engine: Engine,
    { image, signal, progress }: { image: string; signal: AbortSignal; progress: (report: PullProgress) => void },
  ): Promise<void> {
    const { runs, clock } = this.#options
    const credentials = await this.#credentials(image)
    await runs.note(place, `Pulling the image ${image}`)
    let saidMs = clock.monotonicMs()
    let last = ''
    const say = (report: PullProgress): void => {
      progress(report)
      const text = inWords(report)
      if (clock.monotonicMs() - saidMs < PROGRESS_MS || text === last) return
      saidMs = clock.monotonicMs()
      last = text
      void runs.note(place, `Pulling the image ${image}: ${text}`).catch(() => undefined) // the pull itself goes on
    }
    await pullImage(engine, image, { credentials, signal, progress: say })
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

  async #engine(): Promise<Engine | undefined> {
    const socket = await this.#socket()
    return socket === undefined ? undefined : new Engine(socket)
  }

  async #socket(): Promise<string | undefined> {
    for (const socket of this.#options.sockets) {
      try {
        accessSync(socket) // of a file in memory, again and again: without waking a thread
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
  const init = typeof initCommit === 'string' && initCommit !== 'N/A' && (!isPodman(version) || (await hasCatatonit()))
  const name = `${String(version['Version'])}`.slice(0, 64)
  return { version: name, api: Number(String(version['ApiVersion']).split('.')[1]), init, info }
}

/** Carries out work with the engine; its own failures reach people as what they are. */
async function named<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof EngineAway) && !(error instanceof EngineRefusal)) throw error
    const Failure = error instanceof EngineAway ? NodeUnready : AgentFailure
    throw new Failure('UNSUPPORTED', `The container engine of this node has failed: ${error.message}`, { cause: error })
  }
}

/** What the engine says of how it keeps containers apart. */
function securityOf(info: Record<string, unknown>): { isRootless: boolean; isRemapped: boolean; hasSeccomp: boolean } {
  const options = Array.isArray(info['SecurityOptions']) ? info['SecurityOptions'].map(String) : []
  const has = (name: string): boolean => options.some((option) => option.split(',')[0] === `name=${name}`)
  return { isRootless: has('rootless'), isRemapped: has('userns'), hasSeccomp: has('seccomp') }
}

function isCgroupV2(info: Record<string, unknown>): boolean {
  return String(info['CgroupVersion']) === '2'
}

function inWords({ doneBytes, totalBytes }: PullProgress): string {
  const mib = (bytes: number): string => (bytes / 1024 / 1024).toFixed(1)
  return totalBytes === 0 ? 'waiting for the registry' : `${mib(doneBytes)} of ${mib(totalBytes)} MiB`
}

/** The first process of Podman, which comes in a package of its own and which its service does not speak of. */
async function hasCatatonit(): Promise<boolean> {
  const there = await Promise.all(
    CATATONIT.map((path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    ),
  )
  return there.includes(true)
}

function unavailable(version: string, reason: string): RuntimeReport {
  return { name: 'docker', version, ok: false, reason, capabilities: [] }
}
