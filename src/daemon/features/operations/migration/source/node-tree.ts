import { z } from 'zod'
import { jsonOf, pathOf, redacted, type SourceHttp, textOf, unanswered } from './http.ts'
import type { SourceServer } from './model.ts'
import { itemOf } from './rows.ts'
import { type SourceEntry, SourceFailure, type SourceTree } from './source.ts'
import { nodeOf } from './views.ts'

const ATTEMPTS = 4
const MOST_ENTRIES = 200_000
const MOST_NAME_BYTES = 255

const Configuration = z.looseObject({ token: z.string().regex(/^[\w.-]{1,500}$/) })
const Entry = z.looseObject({
  name: z.string(),
  size: z.number().int().nonnegative(),
  mode_bits: z
    .string()
    .regex(/^[0-7]{1,6}$/)
    .catch('644'),
  directory: z.boolean(),
  symlink: z.boolean(),
  modified: z.string().max(50),
})

/** What opens a node of the source. */
interface NodeAccess {
  readonly origin: string
  /** Full control of the node: goes to it, and into nothing else. */
  readonly token: string
}

/** Opens the files of servers at their nodes. What opens a node is asked for once, and again when the node has refused it or is not there. */
export class NodeTrees {
  readonly #http: SourceHttp
  /** By the id of the node. */
  readonly #known = new Map<string, Promise<NodeAccess | undefined>>()

  constructor(http: SourceHttp) {
    this.#http = http
  }

  /** `undefined`: the keys may not read what opens the node. */
  async open({ nodeId, uuid }: SourceServer, signal: AbortSignal): Promise<SourceTree | undefined> {
    const known = this.#known.get(nodeId)
    // Of one that was asked for by somebody else, who has left off since, nothing is known.
    const found = known === undefined ? undefined : await known.catch(() => undefined)
    const access = found ?? (await this.#asked(nodeId, signal))
    if (access === undefined) return undefined
    return new NodeTree(this.#http, uuid, {
      access,
      forget: () => this.#known.delete(nodeId),
      renewed: () => this.#asked(nodeId, signal),
    })
  }

  #asked(nodeId: string, signal: AbortSignal): Promise<NodeAccess | undefined> {
    const asked = accessOf(this.#http, nodeId, signal)
    this.#known.set(nodeId, asked)
    asked.catch(() => this.#known.delete(nodeId)) // whoever awaits it gets the reason
    return asked
  }
}

async function accessOf(http: SourceHttp, nodeId: string, signal: AbortSignal): Promise<NodeAccess | undefined> {
  const path = pathOf`/nodes/${nodeId}`
  try {
    const { origin } = nodeOf(itemOf(await http.request({ api: 'application', method: 'GET', path }, signal), 'a node'))
    const request = { api: 'application', method: 'GET', path: `${path}/configuration` } as const
    const { token } = Configuration.parse(await http.request(request, signal))
    return { origin, token }
  } catch (error) {
    if (error instanceof SourceFailure && error.problem === 'denied') return undefined
    if (!(error instanceof z.ZodError)) throw error
    throw new SourceFailure('not-a-source', `the source answers no configuration of node ${nodeId}`)
  }
}

interface TreeAccess {
  readonly access: NodeAccess
  /** The node does not answer there. */
  forget(): void
  /** Asks the source once more what opens the node. */
  renewed(): Promise<NodeAccess | undefined>
}

class NodeTree implements SourceTree {
  readonly #http: SourceHttp
  readonly #uuid: string
  readonly #of: TreeAccess
  #access: NodeAccess

  constructor(http: SourceHttp, uuid: string, of: TreeAccess) {
    this.#http = http
    this.#uuid = uuid
    this.#of = of
    this.#access = of.access
  }

  async list(folder: string, signal: AbortSignal): Promise<readonly SourceEntry[]> {
    const { host } = new URL(this.#access.origin)
    const text = await this.#http.retried(
      ATTEMPTS,
      async () => {
        const body = await this.#open('list-directory', { directory: `/${folder}` }, signal)
        try {
          return await textOf(body, host)
        } catch (error) {
          signal.throwIfAborted()
          throw error instanceof SourceFailure ? error : unanswered(error, host)
        }
      },
      signal,
    )
    const rows = z.array(Entry).max(MOST_ENTRIES).safeParse(jsonOf(text))
    if (!rows.success)
      throw new SourceFailure('not-a-source', `${host} answers no list for the folder /${redacted(folder)}`)
    return rows.data.map(({ name, size, mode_bits: mode, directory, symlink, modified }) => {
      if (!isName(name)) {
        throw new SourceFailure(
          'rejected',
          `${host} names a file in /${redacted(folder)} that is none: ${redacted(name)}`,
        )
      }
      const modifiedMs = Date.parse(modified)
      return {
        name,
        kind: symlink ? 'link' : directory ? 'folder' : 'file',
        bytes: size,
        mode: Number.parseInt(mode, 8) & 0o777,
        modifiedMs: Number.isNaN(modifiedMs) ? 0 : modifiedMs,
      }
    })
  }

  async *read(path: string, signal: AbortSignal): AsyncGenerator<Buffer> {
    const { host } = new URL(this.#access.origin)
    const open = () => this.#open('contents', { file: `/${path}`, download: '1' }, signal)
    const body = await this.#http.retried(ATTEMPTS, open, signal)
    try {
      for await (const piece of body) yield piece
    } catch (error) {
      signal.throwIfAborted()
      throw unanswered(error, host)
    } finally {
      body.destroy()
    }
  }

  /** A token that the node refuses may have been changed since it was read. */
  async #open(what: string, query: Readonly<Record<string, string>>, signal: AbortSignal) {
    try {
      return await this.#once(what, query, signal)
    } catch (error) {
      if (!(error instanceof SourceFailure) || error.problem !== 'denied') throw error
      const access = await this.#of.renewed()
      if (access === undefined || access.token === this.#access.token) throw error
      this.#access = access
      return await this.#once(what, query, signal)
    }
  }

  async #once(what: string, query: Readonly<Record<string, string>>, signal: AbortSignal) {
    const { origin, token } = this.#access
    const url = new URL(`${pathOf`/api/servers/${this.#uuid}/files/`}${what}`, origin)
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
    const headers = { authorization: `Bearer ${token}`, accept: '*/*' }
    const answer = await this.#http.open(url, { headers, signal }).catch((error: unknown) => {
      signal.throwIfAborted()
      this.#of.forget()
      throw unanswered(error, url.host)
    })
    const { statusCode: status, body } = answer
    if (status === 200) return body as typeof body & AsyncIterable<Buffer>
    body.destroy()
    body.on('error', () => undefined)
    if (status === 404)
      throw new SourceFailure('missing', `${url.host} has no ${redacted(Object.values(query)[0] ?? '')}`, { status })
    if (status === 401 || status === 403)
      throw new SourceFailure('denied', `${url.host} denies it (${status})`, { status })
    throw new SourceFailure('broken', `${url.host} answers with a failure (${status})`, {
      status,
      isTransient: status >= 500 || status === 408 || status === 429,
    })
  }
}

/** One name in a folder. */
function isName(name: string): boolean {
  if (name === '' || name === '.' || name === '..' || Buffer.byteLength(name) > MOST_NAME_BYTES) return false
  return !name.includes('/') && !name.includes('\0')
}
