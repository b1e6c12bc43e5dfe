import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Answer, notFound, Refusal, readBody, send } from './answer.ts'
import { applicationRoutes } from './application-routes.ts'
import { ApplicationViews } from './application-views.ts'
import type { SimBackups } from './backups.ts'
import { CLIENT_ROUTES } from './client-routes.ts'
import { ClientViews } from './client-views.ts'
import { type FaultInjector, reset, sendFailure } from './fault-injector.ts'
import { type Api, type Caller, forbidden } from './keys.ts'
import { addressOf, closeServer, listen, portOf } from './listening.ts'
import type { LoggedRequest } from './request-log.ts'
import { matched, type RouteContext, type SimRoute } from './route.ts'
import type { SimBackup, SimNode, SimWorld } from './rows.ts'
import { setRetryAfter, type Throttle } from './throttle.ts'
import { BrokenRow, includesOf, type NodeAddress } from './view.ts'
import type { Tls } from './wings.ts'

export interface PanelOptions {
  readonly world: SimWorld
  readonly callers: ReadonlyMap<string, Caller>
  readonly backups: SimBackups
  readonly injector: FaultInjector
  readonly throttle: Throttle
  readonly tls: Tls | undefined
  /** Where it listens; 0: on a free port. */
  readonly port: number
  readonly log: (request: IncomingMessage, response: ServerResponse) => LoggedRequest
  readonly addressOf: (node: SimNode) => NodeAddress
  readonly s3Url: (backup: SimBackup) => string
  /** Called when something may have changed; resolves when that is kept, before it is answered. */
  readonly onChange: () => Promise<void>
  /** Answers what tests ask the simulator itself. */
  readonly control: (url: URL, request: IncomingMessage, response: ServerResponse) => Promise<void>
}

/** Characters of what was sent. */
const MOST_LOGGED = 2000

/** The panel of the source: who may ask, how often, and which route answers. */
export class SimPanel {
  readonly #options: PanelOptions
  readonly #routes: readonly SimRoute[]
  readonly #server: Server
  #port: number

  constructor(options: PanelOptions) {
    this.#options = options
    this.#port = options.port
    this.#routes = [...applicationRoutes(options.world.options.flavor), ...CLIENT_ROUTES]
    const handle = (request: IncomingMessage, response: ServerResponse): void => {
      void this.#handle(request, response)
    }
    this.#server = options.tls === undefined ? createServer(handle) : createSecureServer(options.tls, handle)
  }

  get url(): string {
    return addressOf(this.#server, this.#options.tls === undefined ? 'http' : 'https')
  }

  get port(): number {
    return this.#port
  }

  /** Listens, on the port that it had before. */
  async open(): Promise<void> {
    await listen(this.#server, this.#port)
    this.#port = portOf(this.#server)
  }

  async close(): Promise<void> {
    await closeServer(this.#server)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { injector, control, log } = this.#options
    const url = new URL(request.url ?? '/', this.url)
    try {
      if (url.pathname.startsWith('/__sim/')) return await control(url, request, response)
      const entry = log(request, response)
      if (injector.faults.delayMs > 0) await sleep(injector.faults.delayMs)
      const fault = injector.hit(request, url.pathname)
      if (fault !== undefined && fault !== 'lost' && fault !== 'cut') return sendFailure(response, fault)
      const answer = await this.#answer(url, request, response, entry)
      if (request.method !== 'GET') await this.#options.onChange()
      if (fault === 'lost') return reset(response)
      send(response, answer, { isCut: fault === 'cut' })
    } catch (error) {
      const refusal = refusalOf(error)
      const { retryAtMs, status, body } = refusal
      if (retryAtMs !== undefined) setRetryAfter(response, retryAtMs, injector.faults.retryAfter)
      send(response, { status, body })
    }
  }

  async #answer(url: URL, request: IncomingMessage, response: ServerResponse, entry: LoggedRequest): Promise<Answer> {
    const body = await readBody(request)
    if (request.method !== 'GET') entry.body = JSON.stringify(body).slice(0, MOST_LOGGED)
    const api = apiOf(url)
    if (api === undefined) throw notFound(`The route ${url.pathname.slice(1)} could not be found.`)
    const { callers, throttle, injector } = this.#options
    const caller = callers.get((request.headers.authorization ?? '').replace(/^Bearer /, ''))
    if (caller === undefined) {
      const isJson = /^[^,;]*[/+]json/i.test(request.headers.accept ?? '')
      if (isJson) throw new Refusal(401, 'AuthenticationException', 'Unauthenticated.')
      response.setHeader('location', `${this.url}/auth/login`)
      return { status: 302, body: null }
    }
    throttle.count(api, caller.user.id, response, entry)
    caller.enter(api)
    if (injector.faults.forced2fa && caller.isAccount) {
      throw new Refusal(400, 'TwoFactorAuthRequiredException', 'Two-factor authentication is required on this account.')
    }
    const path = url.pathname.replace(/\/+$/, '')
    for (const route of this.#routes) {
      const params = route.method === request.method ? matched(route.path, path) : undefined
      if (params === undefined) continue
      const { resource } = route
      const mayDo = resource === null || (route.method === 'GET' ? caller.mayRead(resource) : caller.mayWrite(resource))
      if (!mayDo) throw forbidden()
      return await route.handle(this.#context(caller, { url, path, params, body }))
    }
    throw notFound(`The route ${path.slice(1)} could not be found.`)
  }

  #context(
    caller: Caller,
    { url, path, params, body }: { url: URL } & Pick<RouteContext, 'path' | 'params' | 'body'>,
  ): RouteContext {
    const { world, backups, injector, s3Url } = this.#options
    const address = this.#options.addressOf
    return {
      world,
      caller: caller.user,
      application: new ApplicationViews(world, (resource) => caller.mayRead(resource), address),
      client: new ClientViews(world, address),
      backups,
      params,
      query: url.searchParams,
      includes: includesOf(url.searchParams.get('include')),
      body,
      url: this.url,
      path,
      faults: () => injector.faults,
      nodeUrl: (node) => {
        const { scheme, host, port } = address(node)
        return `${scheme}://${host}:${port}`
      },
      isOffline: (node) => injector.faults.wingsOffline.includes(node.id),
      s3Url,
    }
  }
}

function apiOf({ pathname }: URL): Api | undefined {
  if (pathname.startsWith('/api/application')) return 'application'
  return pathname.startsWith('/api/client') ? 'client' : undefined
}

function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  if (error instanceof BrokenRow) {
    return new Refusal(500, error.message, 'An unexpected error was encountered while processing this request.')
  }
  // A mistake of the simulator: the test that met it should see where.
  return new Refusal(500, 'ErrorException', error instanceof Error ? `${error.stack}` : String(error))
}
