import { createReadStream } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { pipeline } from 'node:stream/promises'
import { claimsOf } from './sim-backups.ts'
import { contentOf, FIRST_MS, type SimFile } from './sim-files.ts'
import type { Faults } from './sim-options.ts'
import type { SimBackup, SimNode, SimServer, SimWorld } from './sim-world.ts'

/** Key and certificate of the source, where it has them. */
export interface Tls {
  readonly key: string
  readonly cert: string
}

export interface WingsOptions {
  readonly world: SimWorld
  readonly node: SimNode
  readonly faults: () => Faults
  readonly spend: (fault: 'truncateBackup' | 'corruptBackup') => boolean
  readonly log: (request: IncomingMessage, response: ServerResponse) => void
  readonly tls: Tls | undefined
}

/** The daemon of one node of the source. */
export class SimWings {
  readonly #options: WingsOptions
  readonly #used = new Map<string, number>()
  #server: Server
  #port = 0

  constructor(options: WingsOptions) {
    this.#options = options
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
        if (!response.headersSent) this.#fail(response, 500, String(error))
        else response.destroy()
      })
    }
    return tls === undefined ? createServer(handle) : createSecureServer(tls, handle)
  }

  /** Listens, on the port that it had before. */
  async open(): Promise<void> {
    if (this.#server.listening) return
    this.#server = this.#create()
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(this.#port, '127.0.0.1', resolve)
    })
    const address = this.#server.address()
    if (typeof address === 'object' && address !== null) this.#port = address.port
  }

  /** Ends all connections; nobody reaches it then. */
  async close(): Promise<void> {
    if (!this.#server.listening) return
    const closed = new Promise((resolve) => this.#server.close(resolve))
    this.#server.closeAllConnections()
    await closed
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://wings')
    const [, first, second, third, ...rest] = url.pathname.split('/')
    if (first === 'download') return await this.#download(request, response, second ?? '', url)
    const { node, world } = this.#options
    if (request.headers.authorization !== `Bearer ${node.token}`) {
      return this.#fail(response, 403, 'You are not authorized to access this endpoint.')
    }
    if (first !== 'api') return this.#fail(response, 404, 'The requested resource was not found.')
    if (second === 'system') return sendJson(response, { version: '1.11.13', architecture: 'amd64', os: 'linux' })
    if (second !== 'servers') return this.#fail(response, 404, 'The requested resource was not found.')
    const server = world.servers.find((one) => one.uuid === third && one.nodeId === node.id)
    if (server === undefined) return this.#fail(response, 404, 'The requested resource does not exist.')
    const path = rest.join('/')
    if (path === '') {
      return sendJson(response, { state: server.power, is_suspended: server.status === 'suspended' })
    }
    const asked = url.searchParams.get('directory') ?? url.searchParams.get('file') ?? '/'
    if (path === 'files/list-directory') return this.#list(response, server, asked)
    if (path === 'files/contents') return await this.#contents(response, server, asked)
    this.#fail(response, 404, 'The requested resource was not found.')
  }

  #list(response: ServerResponse, server: SimServer, directory: string): void {
    const rows = listingOf(server, directory)
    if (rows === undefined) {
      this.#fail(response, 404, 'The requested directory does not exist.')
      return
    }
    sendJson(
      response,
      rows.map(({ name, kind, file }) => ({
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

  async #contents(response: ServerResponse, server: SimServer, path: string): Promise<void> {
    const found = fileOf(server, path)
    if (found === undefined) return this.#fail(response, 404, 'The requested resources was not found on the system.')
    response.setHeader('x-mime-type', 'application/octet-stream')
    await this.#sendFile(response, server, found)
  }

  async #sendFile(response: ServerResponse, server: SimServer, [path, file]: [string, SimFile]): Promise<void> {
    response.setHeader('content-length', file.size)
    response.setHeader('content-type', 'application/octet-stream')
    await pipeline(this.#paced(contentOf(server.tree, path, file)), response)
  }

  async *#paced(pieces: Iterable<Buffer> | AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    const slowest = (): number => this.#options.faults().slowBps
    for await (const piece of pieces) {
      if (slowest() === 0) {
        yield piece
        continue
      }
      const step = Math.max(1, Math.floor(slowest() / 20))
      for (let at = 0; at < piece.length; at += step) {
        yield piece.subarray(at, at + step)
        await new Promise((resolve) => setTimeout(resolve, 50))
      }
    }
  }

  async #download(request: IncomingMessage, response: ServerResponse, kind: string, url: URL): Promise<void> {
    const claims = claimsOf(this.#options.node.token, url.searchParams.get('token') ?? '')
    if (claims === undefined || request.method !== 'GET') {
      return this.#fail(response, 500, 'An unexpected error was encountered while processing this request.')
    }
    const once = String(claims['unique_id'])
    const now = Date.now()
    for (const [id, at] of this.#used) if (at < now - 3_600_000) this.#used.delete(id)
    if (this.#used.has(once)) return this.#fail(response, 404, 'The requested resource was not found on this server.')
    this.#used.set(once, now)
    const { world, node } = this.#options
    const server = world.servers.find((one) => one.uuid === claims['server_uuid'] && one.nodeId === node.id)
    const backup = server?.backups.find((one) => one.uuid === claims['backup_uuid'])
    const path = claims['file_path']
    const found = server !== undefined && typeof path === 'string' ? fileOf(server, path) : undefined
    if (kind === 'file' && server !== undefined && found !== undefined) {
      return await this.#sendFile(response, server, found)
    }
    if (kind !== 'backup' || backup?.file === undefined || backup.file === null) {
      return this.#fail(response, 404, 'The requested backup was not found on this server.')
    }
    await this.sendArchive(response, backup)
  }

  /** Sends an archive with the faults that it may have. */
  async sendArchive(response: ServerResponse, { file, bytes, name }: SimBackup): Promise<void> {
    const { faults, spend } = this.#options
    if (file === null) return this.#fail(response, 404, 'The requested backup was not found on this server.')
    response.setHeader('content-type', 'application/octet-stream')
    response.setHeader('content-disposition', `attachment; filename="${encodeURIComponent(name)}.tar.gz"`)
    if (spend('corruptBackup')) {
      const whole = await readFile(file)
      const at = Math.floor(whole.length / 2)
      whole[at] = (whole[at] ?? 0) ^ 0xff
      response.setHeader('content-length', whole.length)
      await pipeline(this.#paced([whole]), response)
      return
    }
    if (spend('truncateBackup')) {
      const part = (await readFile(file)).subarray(0, Math.floor(bytes / 2))
      const isShort = faults().truncateMode === 'short'
      response.setHeader('content-length', isShort ? part.length : bytes)
      await pipeline(this.#paced([part]), response, { end: isShort })
      if (!isShort) response.destroy()
      return
    }
    response.setHeader('content-length', bytes)
    await pipeline(this.#paced(createReadStream(file)), response)
  }

  #fail(response: ServerResponse, status: number, error: string): void {
    sendJson(response, { error, request_id: '00000000-0000-4000-8000-000000000000' }, status)
  }
}

/** An entry of a folder. */
interface Row {
  readonly name: string
  readonly kind: 'file' | 'directory' | 'link'
  readonly file: SimFile | undefined
}

const inside = (path: string): string =>
  path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')

/** What lies in a folder of a server; `undefined`: there is none. */
export function listingOf(server: SimServer, directory: string): readonly Row[] | undefined {
  const folder = inside(directory)
  const prefix = folder === '' ? '' : `${folder}/`
  const rows = new Map<string, Row>()
  const { files, links, emptyDirs } = server.tree
  const add = (path: string, kind: Row['kind'], file?: SimFile): void => {
    if (!path.startsWith(prefix) || path === prefix) return
    const [name = '', more] = path.slice(prefix.length).split('/')
    const deeper = more !== undefined
    rows.set(name, { name, kind: deeper ? 'directory' : kind, file: deeper ? undefined : file })
  }
  for (const [path, file] of files) add(path, 'file', file)
  for (const path of links.keys()) add(path, 'link')
  for (const path of emptyDirs) add(path, 'directory')
  if (rows.size === 0 && folder !== '' && !emptyDirs.has(folder)) return undefined
  return [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1))
}

/** A file of a server, with its path as the tree has it. */
export function fileOf(server: SimServer, path: string): [string, SimFile] | undefined {
  const name = inside(path)
  const file = server.tree.files.get(name)
  return file === undefined ? undefined : [name, file]
}

/** As `ls` writes it. */
export function modeText(kind: Row['kind'], mode = 0o755): string {
  const letters = [...'rwxrwxrwx'].map((letter, n) => ((mode >> (8 - n)) & 1 ? letter : '-')).join('')
  return `${kind === 'directory' ? 'd' : kind === 'link' ? 'L' : '-'}${letters}`
}

function sendJson(response: ServerResponse, body: unknown, status = 200): void {
  response.statusCode = status
  response.setHeader('content-type', 'application/json; charset=utf-8')
  response.end(JSON.stringify(body))
}
