import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { notFound, readBody } from './answer.ts'
import { SimBackups } from './backups.ts'
import { differencesOf } from './changes.ts'
import { FaultInjector } from './fault-injector.ts'
import { manifestOf } from './files.ts'
import { createKeys, type SourceKeys } from './keys.ts'
import { ObjectStore } from './object-store.ts'
import { type Faults, NO_FAULTS, PLAIN_WORLD, type WorldOptions } from './options.ts'
import { SimPanel } from './panel.ts'
import { type LoggedRequest, logRequest } from './request-log.ts'
import type { SimNode, SimWorld } from './rows.ts'
import { readState, type SavedState, StateSaver } from './saved-state.ts'
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
  /**
   * Keeps what the source is, so that it is the same at the same ports when it is started there again, after a kill too; the other options
   * count for the first time only. Without it nothing is kept.
   */
  readonly folder?: string
}

/** Starts a source on free ports of the loopback address; `close()` ends it. */
export async function startSource(options: SourceOptions = {}): Promise<SourceSimulator> {
  const { faults, tls, customize, folder, ...world } = options
  const saved = folder === undefined ? undefined : await readState(folder)
  const begun = {
    world: saved?.world ?? createWorld({ ...PLAIN_WORLD, ...world }),
    faults: saved?.faults ?? { ...NO_FAULTS, ...faults },
  }
  if (saved === undefined) customize?.(begun.world)
  const source = new SourceSimulator(begun, { tls, folder, saved })
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
  readonly #folder: string | undefined
  readonly #saver: StateSaver | undefined
  #found: unknown
  readonly #injector: FaultInjector
  readonly #throttle: Throttle
  readonly #backups: SimBackups
  readonly #panel: SimPanel
  readonly #store: ObjectStore
  readonly #wings: ReadonlyMap<number, SimWings>

  constructor(
    { world, faults }: Pick<SavedState, 'world' | 'faults'>,
    {
      tls,
      folder,
      saved,
    }: {
      readonly tls: Tls | undefined
      readonly folder: string | undefined
      readonly saved: SavedState | undefined
    },
  ) {
    const injector = new FaultInjector(faults)
    const onChange = async (): Promise<void> => await this.#save()
    const { keys, callers } = createKeys(world)
    const logOf = (to: string) => (request: IncomingMessage, response: ServerResponse) =>
      logRequest(this.log, to, request, response)
    this.world = world
    this.keys = keys
    this.#tls = tls
    this.#folder = folder
    this.#saver = folder === undefined ? undefined : new StateSaver(folder, () => this.#toSave())
    this.#found = saved?.found
    this.#injector = injector
    this.#throttle = new Throttle(world.options.flavor, () => injector.faults)
    this.#backups = new SimBackups({ world, injector, onChange })
    this.#store = new ObjectStore({ world, injector, log: logOf('s3'), port: saved?.ports.store ?? 0 })
    this.#wings = new Map(
      world.nodes.map((node) => {
        const port = saved?.ports.wings.get(node.id) ?? 0
        return [node.id, new SimWings({ world, node, injector, log: logOf(`wings:${node.id}`), tls, port })]
      }),
    )
    this.#panel = new SimPanel({
      world,
      callers,
      injector,
      tls,
      port: saved?.ports.panel ?? 0,
      onChange,
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
    await this.#backups.open(await this.#archives())
    await this.#connect()
    this.#found ??= this.state()
    await this.#save()
  }

  async #archives(): Promise<string> {
    if (this.#folder === undefined) return await mkdtemp(join(tmpdir(), 'panel-source-'))
    const archives = join(this.#folder, 'archives')
    await mkdir(archives, { recursive: true })
    return archives
  }

  async #connect(): Promise<void> {
    if (this.world.options.s3) await this.#store.open()
    for (const wings of this.#wings.values()) await wings.open()
    await this.#panel.open()
    await this.#connectWings()
  }

  async #disconnect(): Promise<void> {
    await Promise.all([this.#panel, this.#store, ...this.#wings.values()].map((one) => one.close()))
  }

  /** Ends it, and removes its archives unless it is kept. */
  async close(): Promise<void> {
    await this.#disconnect()
    const archives = await this.#backups.close()
    await this.#save()
    if (this.#folder === undefined) await rm(archives, { recursive: true, force: true })
  }

  /** All connections end, and for a while nobody is reached; everything is where it was before then. */
  async restart(awayMs = 0): Promise<void> {
    await this.#disconnect()
    await sleep(awayMs)
    await this.#connect()
  }

  async #save(): Promise<void> {
    await this.#saver?.save()
  }

  #toSave(): SavedState {
    const wings = new Map([...this.#wings].map(([id, { port }]) => [id, port]))
    const ports = { panel: this.#panel.port, store: this.#store.port, wings }
    return { world: this.world, faults: this.faults, found: this.#found, ports }
  }

  get faults(): Faults {
    return this.#injector.faults
  }

  /** Other faults from now on. */
  async setFaults(faults: Partial<Faults>): Promise<void> {
    this.#injector.change(faults)
    if (faults.throttle !== undefined || faults.throttleWindowMs !== undefined) this.#throttle.reset()
    await this.#connectWings()
    await this.#save()
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

  /** What is not as it was found, a line each: left behind by whoever has moved away from here. */
  changes(): string[] {
    return differencesOf(this.#found, this.state())
  }

  /** Lets a week pass. What was changed before and in it is how the source is found then. */
  passWeek(): void {
    passWeek(this.world)
    this.#found = this.state()
    void this.#save()
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
        case 'GET /__sim/changes':
          return this.changes()
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
