import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { notFound, Refusal, readBody, send } from './sim-answer.ts'
import { SimBackups } from './sim-backups.ts'
import { manifestOf, textFile } from './sim-files.ts'
import { type Faults, NO_FAULTS, PLAIN_WORLD, type WorldOptions } from './sim-options.ts'
import { randomFrom } from './sim-random.ts'
import { brokenRow, type RouteContext, routesOf, type SimRoute } from './sim-routes.ts'
import { ApplicationViews, BrokenRow, ClientViews, includesOf, type MayRead, type Resource } from './sim-views.ts'
import { SimWings, type Tls } from './sim-wings.ts'
import { createWorld, type SimNode, type SimUser, type SimWorld } from './sim-world.ts'

/** One request as it came, to the panel or to a node. */
export interface LoggedRequest {
  readonly n: number
  readonly atMs: number
  /** `panel`, `wings:<id of the node>` or `s3`. */
  readonly to: string
  readonly method: string
  /** Without what signs it. */
  readonly path: string
  readonly query: string
  /** 0: it was cut off without an answer. */
  status: number
  /** It came before the time was over for which the panel had asked to be left alone. */
  early: boolean
}

/** The keys of the source. */
export interface SourceKeys {
  /** Of the administrator's account: good for both APIs. */
  readonly account: string
  /** Of the application API, with all rights. */
  readonly application: string
  readonly applicationReadOnly: string
  readonly applicationServersOnly: string
  /** Of the account of somebody who is no administrator. */
  readonly member: string
}

/** A source that runs. */
export interface SourceSimulator {
  readonly url: string
  readonly keys: SourceKeys
  /** Its rows, which may be changed while it runs. */
  readonly world: SimWorld
  readonly log: readonly LoggedRequest[]
  readonly faults: Faults
  setFaults(faults: Partial<Faults>): Promise<void>
  /** All files of all servers, with their hashes. */
  manifest(): Record<string, Record<string, { size: number; sha256: string; mode: number }>>
  /** Everything that a migration could have changed; equal before and after where the source was left as it was found. */
  state(): unknown
  /** What happens in a week: files, a name, a new server of an old owner, a server that is gone. */
  change(): void
  nodeUrl(id: number): string
  close(): Promise<void>
}

interface Key {
  readonly user: SimUser
  /** `null`: of an account. */
  readonly acl: Readonly<Partial<Record<Resource, number>>> | null
}

const READ = 1
const WRITE = 2
const ALL: readonly Resource[] = [
  'users', 'allocations', 'database_hosts', 'server_databases', 'eggs', 'locations', 'nests', 'nodes', 'servers',
  'mounts', 'roles',
] // biome-ignore format: a list
const rights = (level: number, of: readonly Resource[] = ALL): Partial<Record<Resource, number>> =>
  Object.fromEntries(of.map((name) => [name, level]))

type Api = 'application' | 'client'

/** Starts a source on free ports of the loopback address. */
export async function startSource(
  options: Partial<WorldOptions> & {
    readonly faults?: Partial<Faults>
    readonly tls?: Tls
    /** Changes what it begins with. */
    readonly customize?: (world: SimWorld) => void
  } = {},
): Promise<SourceSimulator> {
  const { faults, tls, customize, ...world } = options
  const source = new Source({ ...PLAIN_WORLD, ...world }, { ...NO_FAULTS, ...faults }, tls)
  customize?.(source.world)
  await source.open()
  return source
}

class Source implements SourceSimulator {
  readonly world: SimWorld
  readonly keys: SourceKeys
  readonly log: LoggedRequest[] = []
  faults: Faults
  readonly #keys: Map<string, Key>
  readonly #tls: Tls | undefined
  readonly #panel: Server
  readonly #s3: Server
  readonly #wings = new Map<number, SimWings>()
  readonly #routes: readonly SimRoute[]
  readonly #windows = new Map<string, { from: number; count: number }>()
  readonly #blocked = new Map<string, { sentAt: number; until: number }>()
  #backups: SimBackups | undefined
  #folder = ''
  #failing = 0

  constructor(options: WorldOptions, faults: Faults, tls: Tls | undefined) {
    this.world = createWorld(options)
    this.faults = faults
    this.#tls = tls
    const [admin, member] = this.world.users
    if (admin === undefined) throw new Error('a source has an administrator')
    this.#routes = routesOf(options.flavor)
    const random = randomFrom(`keys ${options.seed}`)
    const isPelican = options.flavor === 'pelican'
    const application = (): string => `${isPelican ? 'papp' : 'ptla'}_${random.text(43)}`
    const account = (): string => `${isPelican ? 'pacc' : 'ptlc'}_${random.text(43)}`
    this.keys = {
      account: account(),
      application: application(),
      applicationReadOnly: application(),
      applicationServersOnly: application(),
      member: account(),
    }
    this.#keys = new Map<string, Key>([
      [this.keys.account, { user: admin, acl: null }],
      [this.keys.application, { user: admin, acl: rights(READ | WRITE) }],
      [this.keys.applicationReadOnly, { user: admin, acl: rights(READ) }],
      [this.keys.applicationServersOnly, { user: admin, acl: rights(READ | WRITE, ['servers']) }],
      [this.keys.member, { user: member ?? admin, acl: null }],
    ])
    const panel = (request: IncomingMessage, response: ServerResponse): void => {
      void this.#handle(request, response)
    }
    this.#panel = tls === undefined ? createServer(panel) : createSecureServer(tls, panel)
    this.#s3 = createServer((request, response) => {
      this.#logRequest('s3', request, response)
      void this.#sendS3(request, response)
    })
  }

  get url(): string {
    return addressOf(this.#panel, this.#tls === undefined ? 'http' : 'https')
  }

  async open(): Promise<void> {
    this.#folder = await mkdtemp(join(tmpdir(), 'panel-source-'))
    this.#backups = new SimBackups({
      world: this.world,
      folder: this.#folder,
      faults: () => this.faults,
      spend: (fault) => this.#spend(fault),
    })
    await listen(this.#panel)
    if (this.world.options.s3) await listen(this.#s3)
    for (const node of this.world.nodes) {
      const wings = new SimWings({
        world: this.world,
        node,
        faults: () => this.faults,
        spend: (fault) => this.#spend(fault),
        log: (request, response) => this.#logRequest(`wings:${node.id}`, request, response),
        tls: this.#tls,
      })
      this.#wings.set(node.id, wings)
      await wings.open()
    }
    await this.#backups.sealOld()
    await this.#connectWings()
  }

  async close(): Promise<void> {
    const ends = [this.#panel, this.#s3].map(async (server) => {
      if (!server.listening) return
      const closed = new Promise((resolve) => server.close(resolve))
      server.closeAllConnections()
      await closed
    })
    await Promise.all([...ends, ...[...this.#wings.values()].map((wings) => wings.close()), this.#backups?.close()])
    await rm(this.#folder, { recursive: true, force: true })
  }

  async setFaults(faults: Partial<Faults>): Promise<void> {
    this.faults = { ...this.faults, ...faults }
    if (faults.throttle !== undefined || faults.throttleWindowMs !== undefined) this.#windows.clear()
    await this.#connectWings()
  }

  async #connectWings(): Promise<void> {
    for (const [id, wings] of this.#wings) {
      if (this.faults.wingsOffline.includes(id)) await wings.close()
      else await wings.open()
    }
  }

  nodeUrl(id: number): string {
    return `${this.#tls === undefined ? 'http' : 'https'}://127.0.0.1:${this.#wings.get(id)?.port ?? 0}`
  }

  manifest(): ReturnType<SourceSimulator['manifest']> {
    return Object.fromEntries(this.world.servers.map(({ uuid, tree }) => [uuid, manifestOf(tree)]))
  }

  state(): unknown {
    const { servers, sshKeys, users, allocations } = this.world
    return structuredClone({
      users,
      allocations,
      sshKeys,
      servers: servers.map(({ tree: _, updatedMs: _when, backups, ...server }) => ({
        ...server,
        backups: backups.map(({ file: _file, ...backup }) => backup),
      })),
    })
  }

  change(): void {
    const { servers, users } = this.world
    const [first, second, third] = servers
    if (first === undefined || second === undefined || third === undefined) throw new Error('needs three servers')
    for (const [path, file] of first.tree.files) {
      if (path.startsWith('world/')) first.tree.files.set(path, { ...file, version: file.version + 1 })
    }
    first.tree.files.set('new-this-week.txt', textFile('new\n'))
    first.tree.files.delete('eula.txt')
    second.name = `${second.name} renamed`
    second.updatedMs = Date.now()
    second.schedules = second.schedules.slice(0, 1).map((one) => ({ ...one, cron: { ...one.cron, hour: '5' } }))
    const friend = users.find(({ id }) => id !== third.ownerId && id !== 1)
    if (friend !== undefined) third.subusers = [{ id: third.id, userId: friend.id, permissions: ['websocket.connect'] }]
    const id = Math.max(...servers.map((server) => server.id)) + 1
    const random = randomFrom(`change ${id}`)
    const uuid = random.uuid()
    const allocation = {
      id: Math.max(...this.world.allocations.map((row) => row.id)) + 1,
      nodeId: first.nodeId,
      ip: '10.0.0.1',
      alias: null,
      port: 27_000 + id,
      notes: null,
      serverId: id,
    }
    this.world.allocations.push(allocation)
    servers.push({
      ...first,
      id,
      uuid,
      name: 'of this week',
      externalId: null,
      allocationId: allocation.id,
      subusers: [],
      databases: [],
      schedules: [],
      backups: [],
      power: 'offline',
      updatedMs: Date.now(),
      tree: {
        key: uuid,
        links: new Map(),
        emptyDirs: new Set(),
        files: new Map([['server.properties', textFile(`server-port=${allocation.port}\n`)]]),
      },
    })
  }

  /** Whether a fault that counts down hits now. */
  #spend(fault: 'backupFail' | 'backupHang' | 'truncateBackup' | 'corruptBackup'): boolean {
    const left = this.faults[fault]
    if (left <= 0) return false
    this.faults = { ...this.faults, [fault]: left - 1 }
    return true
  }

  #logRequest(to: string, request: IncomingMessage, response: ServerResponse): LoggedRequest {
    const url = new URL(request.url ?? '/', 'http://source')
    for (const name of ['token', 'X-Amz-Signature']) {
      if (url.searchParams.has(name)) url.searchParams.set(name, '…')
    }
    const entry: LoggedRequest = {
      n: this.log.length + 1,
      atMs: Date.now(),
      to,
      method: request.method ?? '',
      path: url.pathname,
      query: decodeURIComponent(url.search),
      status: 0,
      early: false,
    }
    this.log.push(entry)
    response.once('finish', () => {
      entry.status = response.statusCode
    })
    return entry
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url)
    try {
      if (url.pathname.startsWith('/__sim/')) return await this.#control(url, request, response)
      const entry = this.#logRequest('panel', request, response)
      if (this.faults.delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.faults.delayMs))
      const fault = this.#faultOf(request, url)
      if (fault !== undefined && fault !== 'lost') return this.#fail(fault, response)
      const answer = await this.#answer(url, request, response, entry)
      if (fault === 'lost') {
        response.destroy()
        return
      }
      send(response, answer)
    } catch (error) {
      const refusal =
        error instanceof Refusal
          ? error
          : error instanceof BrokenRow
            ? brokenRow(error)
            : new Refusal(500, 'ErrorException', error instanceof Error ? `${error.stack}` : String(error))
      if (refusal.retryAfterMs !== undefined) this.#setRetryAfter(response, refusal.retryAfterMs)
      send(response, { status: refusal.status, body: refusal.body })
    }
  }

  #setRetryAfter(response: ServerResponse, ms: number): void {
    const seconds = Math.max(1, Math.ceil(ms / 1000))
    const end = Math.ceil((Date.now() + ms) / 1000) * 1000
    const isDate = this.faults.retryAfter === 'date'
    response.setHeader('retry-after', isDate ? new Date(end).toUTCString() : String(seconds))
    response.setHeader('x-ratelimit-reset', String(Math.ceil(end / 1000)))
  }

  #faultOf(request: IncomingMessage, url: URL): Faults['failKind'] | undefined {
    const { failEvery, failKind, failMethods, failLeft, failPath } = this.faults
    if (failEvery === 0 || failLeft === 0) return undefined
    if (failMethods.length > 0 && !failMethods.includes(request.method ?? '')) return undefined
    if (!url.pathname.includes(failPath)) return undefined
    if (++this.#failing % failEvery !== 0) return undefined
    if (failLeft !== null) this.faults = { ...this.faults, failLeft: failLeft - 1 }
    return failKind
  }

  #fail(kind: Exclude<Faults['failKind'], 'lost'>, response: ServerResponse): void {
    if (kind === 'hang') return
    if (kind === 'reset') {
      response.destroy()
      return
    }
    if (kind === 'html') {
      response.setHeader('content-type', 'text/html')
      response.end('<!DOCTYPE html><title>One moment please</title>')
      return
    }
    response.statusCode = Number(kind)
    response.setHeader('content-type', 'text/html')
    response.end(`<html><h1>${kind}</h1><p>nginx</p></html>`)
  }

  async #answer(url: URL, request: IncomingMessage, response: ServerResponse, entry: LoggedRequest) {
    const body = await readBody(request)
    const api: Api | undefined = url.pathname.startsWith('/api/application')
      ? 'application'
      : url.pathname.startsWith('/api/client')
        ? 'client'
        : undefined
    if (api === undefined) throw notFound(`The route ${url.pathname.slice(1)} could not be found.`)
    const isJson = /^[^,;]*[/+]json/i.test(request.headers.accept ?? '')
    const key = this.#keys.get((request.headers.authorization ?? '').replace(/^Bearer /, ''))
    if (key === undefined) {
      if (isJson) throw new Refusal(401, 'AuthenticationException', 'Unauthenticated.')
      response.setHeader('location', `${this.url}/auth/login`)
      return { status: 302, body: null }
    }
    this.#throttle(api, key.user, response, entry)
    if (api === 'client' && key.acl !== null) throw forbidden()
    if (api === 'application' && !key.user.rootAdmin) throw forbidden()
    const path = url.pathname.replace(/\/+$/, '')
    for (const route of this.#routes) {
      const params = matched(route.path, path)
      if (params === undefined || route.method !== request.method) continue
      const mayDo = (resource: Resource, level: number): boolean =>
        key.acl === null || ((key.acl[resource] ?? 0) & level) !== 0
      if (route.resource !== null && !mayDo(route.resource, request.method === 'GET' ? READ : WRITE)) throw forbidden()
      const context = this.#context(key.user, (resource) => mayDo(resource, READ), { url, params, body })
      return await route.handle(context)
    }
    throw notFound(`The route ${path.slice(1)} could not be found.`)
  }

  #context(
    caller: SimUser,
    mayRead: MayRead,
    { url, params, body }: { url: URL; params: Record<string, string>; body: Record<string, unknown> },
  ): RouteContext {
    if (this.#backups === undefined) throw new Error('the source is not open')
    const address = (node: SimNode) => ({
      host: '127.0.0.1',
      port: this.#wings.get(node.id)?.port ?? 0,
      scheme: this.#tls === undefined ? ('http' as const) : ('https' as const),
    })
    return {
      world: this.world,
      caller,
      application: new ApplicationViews(this.world, mayRead, address),
      client: new ClientViews(this.world, address),
      backups: this.#backups,
      params,
      query: url.searchParams,
      includes: includesOf(url.searchParams.get('include')),
      body,
      url: this.url,
      nodeUrl: (node) => this.nodeUrl(node.id),
      isOffline: (node) => this.faults.wingsOffline.includes(node.id),
      s3Url: ({ uuid }) => {
        const end = Date.now() + 300_000
        return `${addressOf(this.#s3, 'http')}/backups/${uuid}.tar.gz?X-Amz-Expires=${end}&X-Amz-Signature=${this.#signed(uuid, end)}`
      },
    }
  }

  /** A fixed window of each user and API. */
  #throttle(api: Api, user: SimUser, response: ServerResponse, entry: LoggedRequest): void {
    const { throttle, throttleWindowMs } = this.faults
    const plain = this.world.options.flavor === 'pelican' ? 256 : api === 'application' ? 240 : 720
    const limit = throttle ?? plain
    const key = `${api} ${user.id}`
    const now = Date.now()
    let window = this.#windows.get(key)
    if (window === undefined || window.from + throttleWindowMs <= now) {
      window = { from: now, count: 0 }
      this.#windows.set(key, window)
    }
    const blocked = this.#blocked.get(key)
    // What was on its way when the panel said so is nobody's fault.
    entry.early = blocked !== undefined && now < blocked.until && now > blocked.sentAt + 100
    const isOver = window.count >= limit
    if (!isOver) window.count++
    response.setHeader('x-ratelimit-limit', String(limit))
    response.setHeader('x-ratelimit-remaining', String(limit - window.count))
    if (!isOver) return
    const leftMs = window.from + throttleWindowMs - now
    const until =
      this.faults.retryAfter === 'date'
        ? Math.ceil((now + leftMs) / 1000) * 1000
        : now + Math.max(1, Math.ceil(leftMs / 1000)) * 1000
    if (blocked === undefined || blocked.until < now) this.#blocked.set(key, { sentAt: now, until })
    throw new Refusal(429, 'ThrottleRequestsException', 'Too Many Attempts.', { retryAfterMs: leftMs })
  }

  #signed(uuid: string, end: number): string {
    return createHash('sha256').update(`${this.world.options.seed} ${uuid} ${end}`).digest('hex')
  }

  async #sendS3(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://s3')
    const uuid = /^\/backups\/([\w-]+)\.tar\.gz$/.exec(url.pathname)?.[1] ?? ''
    const end = Number(url.searchParams.get('X-Amz-Expires'))
    const backup = this.world.servers.flatMap((server) => server.backups).find((one) => one.uuid === uuid)
    const wings = this.#wings.values().next().value
    const isSigned = url.searchParams.get('X-Amz-Signature') === this.#signed(uuid, end) && end > Date.now()
    if (backup === undefined || wings === undefined || !isSigned || request.method !== 'GET') {
      response.statusCode = 403
      response.end('<Error><Code>AccessDenied</Code></Error>')
      return
    }
    // A download that ends early has nothing more to say.
    await wings.sendArchive(response, backup).catch(() => response.destroy())
  }

  async #control(url: URL, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const answer = async (): Promise<unknown> => {
      switch (`${request.method} ${url.pathname}`) {
        case 'GET /__sim/log':
          return this.log
        case 'GET /__sim/manifest':
          return this.manifest()
        case 'GET /__sim/state':
          return this.state()
        case 'GET /__sim/keys':
          return this.keys
        case 'POST /__sim/faults':
          await this.setFaults(await readBody(request))
          return this.faults
        case 'POST /__sim/change':
          this.change()
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

const forbidden = (): Refusal => new Refusal(403, 'AccessDeniedHttpException', 'This action is unauthorized.')

function matched(pattern: string, path: string): Record<string, string> | undefined {
  const [wanted, given] = [pattern.split('/'), path.split('/')]
  if (wanted.length !== given.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of wanted.entries()) {
    const value = given[index] ?? ''
    if (part.startsWith(':')) params[part.slice(1)] = decodeURIComponent(value)
    else if (part !== value) return undefined
  }
  return params
}

async function listen(server: Server): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
}

function addressOf(server: Server, scheme: 'http' | 'https'): string {
  const address = server.address()
  return `${scheme}://127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`
}
