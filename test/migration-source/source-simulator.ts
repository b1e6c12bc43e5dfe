import type { IncomingMessage, ServerResponse } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { notFound, readBody } from './answer.ts'
import { SimBackups } from './backups.ts'
import { FaultInjector } from './fault-injector.ts'
import { manifestOf } from './files.ts'
import { createKeys, type SourceKeys } from './keys.ts'
import { ObjectStore } from './object-store.ts'
import { type Faults, NO_FAULTS, PLAIN_WORLD, type WorldOptions } from './options.ts'
import { SimPanel } from './panel.ts'
import { type LoggedRequest, logRequest } from './request-log.ts'
import type { SimNode, SimWorld } from './rows.ts'
import { Throttle } from './throttle.ts'
import type { NodeAddress } from './view.ts'
import { passWeek } from './week.ts'
import { SimWings, type Tls } from './wings.ts'
import { createWorld } from './world.ts'

/** SHA-256 of all files of all servers, by the server's uuid and the path. */
export type SourceManifest = Record<string, ReturnType<typeof manifestOf>>

/** What a source begins with, and what goes wrong with it. */
export type SourceOptions = Partial<WorldOptions> & {
  readonly faults?: Partial<Faults>
  readonly tls?: Tls
  /** Changes its rows before it is reached. */
  readonly customize?: (world: SimWorld) => void
}

/** Starts a source on free ports of the loopback address; `close()` ends it. */
export async function startSource(options: SourceOptions = {}): Promise<SourceSimulator> {
  const { faults, tls, customize, ...world } = options
  const source = new SourceSimulator({ ...PLAIN_WORLD, ...world }, { ...NO_FAULTS, ...faults }, tls)
  customize?.(source.world)
  await source.open()
  return source
}

/** A panel of another make with its nodes, as somebody would move away from. */
export class SourceSimulator {
  readonly keys: SourceKeys
  /** Its rows, which may be changed while it runs. */
  readonly world: SimWorld
  readonly log: LoggedRequest[] = []
  readonly #tls: Tls | undefined
  readonly #injector: FaultInjector
  readonly #throttle: Throttle
  readonly #backups: SimBackups
  readonly #panel: SimPanel
  readonly #store: ObjectStore
  readonly #wings: ReadonlyMap<number, SimWings>

  constructor(options: WorldOptions, faults: Faults, tls: Tls | undefined) {
    const world = createWorld(options)
    const injector = new FaultInjector(faults)
    const { keys, callers } = createKeys(world)
    const logOf = (to: string) => (request: IncomingMessage, response: ServerResponse) =>
      logRequest(this.log, to, request, response)
    this.world = world
    this.keys = keys
    this.#tls = tls
    this.#injector = injector
    this.#throttle = new Throttle(options.flavor, () => injector.faults)
    this.#backups = new SimBackups({ world, injector })
    this.#store = new ObjectStore({ world, injector, log: logOf('s3') })
    this.#wings = new Map(
      world.nodes.map((node) => [node.id, new SimWings({ world, node, injector, log: logOf(`wings:${node.id}`), tls })]),
    )
    this.#panel = new SimPanel({
      world,
      callers,
      injector,
      tls,
      backups: this.#backups,
      throttle: this.#throttle,
      log: logOf('panel'),
      addressOf: (node) => this.#addressOf(node),
      s3Url: (backup) => this.#store.urlOf(backup),
      control: (url, request, response) => this.#control(url, request, response),
    })
  }

  get url(): string {
    return this.#panel.url
  }

  /** Where the daemon of a node is reached. */
  nodeUrl(id: number): string {
    const { scheme, host, port } = this.#addressOf({ id })
    return `${scheme}://${host}:${port}`
  }

  #addressOf({ id }: Pick<SimNode, 'id'>): NodeAddress {
    const scheme = this.#tls === undefined ? 'http' : 'https'
    return { host: '127.0.0.1', port: this.#wings.get(id)?.port ?? 0, scheme }
  }

  /** Makes it reachable. */
  async open(): Promise<void> {
    await this.#backups.open(await mkdtemp(join(tmpdir(), 'panel-source-')))
    if (this.world.options.s3) await this.#store.open()
    for (const wings of this.#wings.values()) await wings.open()
    await this.#panel.open()
    await this.#connectWings()
  }

  /** Ends it, and removes its archives. */
  async close(): Promise<void> {
    const wings = [...this.#wings.values()]
    await Promise.all([this.#panel, this.#store, ...wings].map((one) => one.close()))
    await rm(await this.#backups.close(), { recursive: true, force: true })
  }

  get faults(): Faults {
    return this.#injector.faults
  }

  /** Other faults from now on. */
  async setFaults(faults: Partial<Faults>): Promise<void> {
    this.#injector.change(faults)
    if (faults.throttle !== undefined || faults.throttleWindowMs !== undefined) this.#throttle.reset()
    await this.#connectWings()
  }

  async #connectWings(): Promise<void> {
    for (const [id, wings] of this.#wings) {
      if (this.faults.wingsOffline.includes(id)) await wings.close()
      else await wings.open()
    }
  }

  /** All files of all servers, with their hashes. */
  manifest(): SourceManifest {
    return Object.fromEntries(this.world.servers.map(({ uuid, tree }) => [uuid, manifestOf(tree)]))
  }

  /** All that a migration could have changed: equal before and after where the source was left as it was found. */
  state() {
    const { servers, sshKeys, users, allocations, nodes, eggs } = this.world
    return structuredClone({
      users,
      allocations,
      sshKeys,
      nodes,
      eggs,
      servers: servers.map(({ tree: _tree, updatedMs: _updated, backups, ...server }) => ({
        ...server,
        backups: backups.map(({ file: _file, ...backup }) => backup),
      })),
    })
  }

  /** Lets a week pass. */
  passWeek(): void {
    passWeek(this.world)
  }

  /** What a test asks of a simulator that runs in another process. */
  async #control(url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = async (): Promise<unknown> => {
      switch (`${request.method} ${url.pathname}`) {
        case 'GET /__sim/log':
          return this.log
        case 'GET /__sim/manifest':
          return this.manifest()
        case 'GET /__sim/state':
          return this.state()
        case 'POST /__sim/faults':
          await this.setFaults((await readBody(request)) as Partial<Faults>)
          return this.faults
        case 'POST /__sim/week':
          this.passWeek()
          return {}
        default:
          throw notFound()
      }
    }
    const body = await answer()
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify(body))
  }
}
