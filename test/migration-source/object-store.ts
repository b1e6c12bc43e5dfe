import { createHash } from 'node:crypto'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { sendArchive } from './download.ts'
import type { FaultInjector } from './fault-injector.ts'
import { addressOf, closeServer, listen, portOf } from './listening.ts'
import type { SimBackup, SimWorld } from './rows.ts'

const VALID_MS = 300_000

/** Where a source keeps its backups that does not leave them on its nodes: a URL is good for five minutes, as often as one likes. */
export class ObjectStore {
  readonly #world: SimWorld
  readonly #injector: FaultInjector
  readonly #log: (request: IncomingMessage, response: ServerResponse) => void
  readonly #server: Server
  #port: number

  constructor(options: {
    readonly world: SimWorld
    readonly injector: FaultInjector
    readonly log: (request: IncomingMessage, response: ServerResponse) => void
    /** Where it listens; 0: on a free port. */
    readonly port: number
  }) {
    this.#world = options.world
    this.#port = options.port
    this.#injector = options.injector
    this.#log = options.log
    this.#server = createServer((request, response) => {
      this.#log(request, response)
      // A download that ends early has nothing more to say.
      this.#send(request, response).catch(() => response.destroy())
    })
  }

  get url(): string {
    return addressOf(this.#server, 'http')
  }

  get port(): number {
    return this.#port
  }

  async open(): Promise<void> {
    await listen(this.#server, this.#port)
    this.#port = portOf(this.#server)
  }

  async close(): Promise<void> {
    await closeServer(this.#server)
  }

  urlOf({ uuid }: SimBackup): string {
    const end = Date.now() + VALID_MS
    return `${this.url}/backups/${uuid}.tar.gz?X-Amz-Expires=${end}&X-Amz-Signature=${this.#signature(uuid, end)}`
  }

  #signature(uuid: string, end: number): string {
    return createHash('sha256').update(`${this.#world.options.seed} ${uuid} ${end}`).digest('hex')
  }

  async #send(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', this.url)
    const uuid = /^\/backups\/([\w-]+)\.tar\.gz$/.exec(url.pathname)?.[1] ?? ''
    const end = Number(url.searchParams.get('X-Amz-Expires'))
    const backup = this.#world.servers.flatMap((server) => server.backups).find((one) => one.uuid === uuid)
    const isSigned = url.searchParams.get('X-Amz-Signature') === this.#signature(uuid, end) && end > Date.now()
    if (backup?.file === undefined || backup.file === null || !isSigned || request.method !== 'GET') {
      response.statusCode = 403
      response.end('<Error><Code>AccessDenied</Code></Error>')
      return
    }
    await sendArchive(response, { ...backup, file: backup.file }, this.#injector)
  }
}
