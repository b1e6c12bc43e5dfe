import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { paced, sendArchive } from './download.ts'
import type { FaultInjector } from './fault-injector.ts'
import { contentOf, FIRST_MS, type SimFile } from './files.ts'
import { fileOf, listingOf, modeText } from './folder.ts'
import { closeServer, listen, portOf } from './listening.ts'
import type { SimNode, SimServer, SimWorld } from './rows.ts'
import { claimsOf } from './tokens.ts'

/** Key and certificate of the source, where it has them. */
export interface Tls {
  readonly key: string
  readonly cert: string
}

export interface WingsOptions {
  readonly world: SimWorld
  readonly node: SimNode
  readonly injector: FaultInjector
  readonly log: (request: IncomingMessage, response: ServerResponse) => void
  readonly tls: Tls | undefined
  /** Where it listens; 0: on a free port. */
  readonly port: number
}

/** How long a token that was used is refused. */
const USED_MS = 3_600_000

/** The daemon of one node of the source. */
export class SimWings {
  readonly #options: WingsOptions
  readonly #used = new Map<string, number>()
  #server: Server
  #port: number

  constructor(options: WingsOptions) {
    this.#options = options
    this.#port = options.port
    this.#server = this.#create()
  }

  get port(): number {
    return this.#port
  }

  #create(): Server {
    const { tls, log } = this.#options
    const handle = (request: IncomingMessage, response: ServerResponse): void => {
      log(request, response)
      this.#handle(request, response).catch((error: unknown) => {
        if (!response.headersSent) sendError(response, 500, String(error))
        else response.destroy()
      })
    }
    return tls === undefined ? createServer(handle) : createSecureServer(tls, handle)
  }

  /** Listens, on the port that it had before. */
  async open(): Promise<void> {
    if (this.#server.listening) return
    this.#server = this.#create()
    await listen(this.#server, this.#port)
    this.#port = portOf(this.#server)
  }

  /** Ends all connections; nobody reaches it then. */
  async close(): Promise<void> {
    await closeServer(this.#server)
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://wings')
    const [, first, second, third, ...rest] = url.pathname.split('/')
    if (first === 'download') return await this.#download(request, response, second ?? '', url)
    const { node, world } = this.#options
    if (request.headers.authorization !== `Bearer ${node.token}`) {
      return sendError(response, 403, 'You are not authorized to access this endpoint.')
    }
    if (first === 'api' && second === 'system') {
      return sendJson(response, { version: '1.11.13', architecture: 'amd64', os: 'linux' })
    }
    if (first !== 'api' || second !== 'servers' || request.method !== 'GET') {
      return sendError(response, 404, 'The requested resource was not found.')
    }
    const server = world.servers.find((one) => one.uuid === third && one.nodeId === node.id)
    if (server === undefined) return sendError(response, 404, 'The requested resource does not exist.')
    const directory = url.searchParams.get('directory') ?? '/'
    const file = url.searchParams.get('file') ?? '/'
    switch (rest.join('/')) {
      case '':
        return sendJson(response, { state: server.power, is_suspended: server.status === 'suspended' })
      case 'files/list-directory':
        return sendListing(response, server, directory)
      case 'files/contents':
        return await this.#sendFile(response, server, fileOf(server, file))
      default:
        return sendError(response, 404, 'The requested resource was not found.')
    }
  }

  async #sendFile(response: ServerResponse, server: SimServer, found: [string, SimFile] | undefined): Promise<void> {
    if (found === undefined) return sendError(response, 404, 'The requested resources was not found on the system.')
    const [path, file] = found
    response.setHeader('content-length', file.size)
    response.setHeader('content-type', 'application/octet-stream')
    await pipeline(paced(contentOf(server.tree, path, file), this.#options.injector), response)
  }

  /** By a signed URL, once. */
  async #download(request: IncomingMessage, response: ServerResponse, kind: string, url: URL): Promise<void> {
    const { world, node, injector } = this.#options
    const claims = claimsOf(node.token, url.searchParams.get('token') ?? '')
    if (claims === undefined || request.method !== 'GET') {
      return sendError(response, 500, 'An unexpected error was encountered while processing this request.')
    }
    if (this.#isUsed(String(claims['unique_id']))) {
      return sendError(response, 404, 'The requested resource was not found on this server.')
    }
    const server = world.servers.find((one) => one.uuid === claims['server_uuid'] && one.nodeId === node.id)
    const path = claims['file_path']
    if (kind === 'file' && server !== undefined && typeof path === 'string') {
      return await this.#sendFile(response, server, fileOf(server, path))
    }
    const backup = server?.backups.find((one) => one.uuid === claims['backup_uuid'])
    const file = backup?.file ?? null
    if (kind !== 'backup' || backup === undefined || file === null || injector.spend('downloadMissing')) {
      return sendError(response, 404, 'The requested backup was not found on this server.')
    }
    await sendArchive(response, { ...backup, file }, injector)
  }

  #isUsed(id: string): boolean {
    const now = Date.now()
    for (const [used, at] of this.#used) if (at < now - USED_MS) this.#used.delete(used)
    if (this.#used.has(id)) return true
    this.#used.set(id, now)
    return false
  }
}

function sendListing(response: ServerResponse, server: SimServer, directory: string): void {
  const entries = listingOf(server, directory)
  if (entries === undefined) {
    sendError(response, 404, 'The requested directory does not exist.')
    return
  }
  sendJson(
    response,
    entries.map(({ name, kind, file }) => ({
      name,
      created: new Date(FIRST_MS).toISOString(),
      modified: new Date(file?.mtimeMs ?? FIRST_MS).toISOString(),
      mode: modeText(kind, file?.mode),
      mode_bits: (file?.mode ?? 0o755).toString(8),
      size: file?.size ?? 4096,
      directory: kind === 'directory',
      file: kind === 'file',
      symlink: kind === 'link',
      mime: kind === 'directory' ? 'inode/directory' : 'application/octet-stream',
    })),
  )
}

function sendError(response: ServerResponse, status: number, error: string): void {
  sendJson(response, { error, request_id: '00000000-0000-4000-8000-000000000000' }, status)
}

function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json; charset=utf-8')
  response.end(JSON.stringify(body))
}
