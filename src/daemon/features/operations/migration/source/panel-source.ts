import { createHash } from 'node:crypto'
import { pathOf, type SourceApi, type SourceHttp, type SourceRequest, withoutSlashes } from './http.ts'
import type {
  SourceAllocation,
  SourceBackup,
  SourceDatabase,
  SourceEgg,
  SourceFlavor,
  SourceKind,
  SourceList,
  SourceLocation,
  SourceLoss,
  SourceMount,
  SourceNest,
  SourceNode,
  SourceSchedule,
  SourceServer,
  SourceSubuser,
  SourceUser,
} from './model.ts'
import { PanelFiles } from './panel-files.ts'
import { pageOf, readItem, readRows } from './rows.ts'
import { FEW_ATTEMPTS } from './single-eggs.ts'
import { type Source, SourceFailure, type SourceProbe, type SourceRight, type SourceUsage } from './source.ts'
import { allocationOf, backupOf, databaseOf, nodeOf, schedulesOf, serverOf, subuserOf, userOf } from './views.ts'

const PER_PAGE = 100
/** The API of accounts has pages of its own sizes. */
const BACKUPS_PER_PAGE = 50
const MOST_PAGES = 1000
const MOST_ROWS = 100_000
/** Of all pages of a list; its rows are in memory until they are read. */
const MOST_LIST_CHARACTERS = 128 * 1024 * 1024
/** Backups and egg lists of one server or nest. */
const FEW_PAGES = 20

/** What both flavours have in common, which is most of it. */
export abstract class PanelSource implements Source {
  abstract readonly flavor: SourceFlavor
  readonly files: PanelFiles
  readonly directory = null
  protected readonly http: SourceHttp

  constructor(http: SourceHttp) {
    this.http = http
    this.files = new PanelFiles(http, this)
  }

  abstract locations(signal: AbortSignal): Promise<SourceList<SourceLocation>>
  abstract nests(signal: AbortSignal): Promise<SourceList<SourceNest>>
  abstract eggs(signal: AbortSignal): Promise<SourceList<SourceEgg>>
  abstract mounts(signal: AbortSignal): Promise<SourceList<SourceMount> | null>
  /** Kinds with a list of their own, and the path of that; what the keys may read is asked by it. */
  protected abstract readonly lists: readonly (readonly [SourceKind, string])[]
  /** Kinds that are asked for below the first of others: of which list, and the path behind its id. */
  protected readonly parts: readonly (readonly [SourceKind, string, string])[] = [
    ['allocation', '/nodes', '/allocations'],
    ['database', '/servers', '/databases'],
  ]
  protected abstract readonly version: string
  protected abstract ownLosses(): readonly SourceLoss[]

  get fingerprint(): string {
    const { host, pathname } = this.http.url
    return createHash('sha256')
      .update(`${host}${withoutSlashes(pathname)}`)
      .digest('hex')
      .slice(0, 32)
  }

  get usage(): SourceUsage {
    return this.http.usage
  }

  async close(): Promise<void> {
    await this.http.close()
  }

  async nodes(signal: AbortSignal): Promise<SourceList<SourceNode>> {
    return readRows('node', await this.rows('/nodes', { sort: 'id' }, signal), nodeOf)
  }

  async users(signal: AbortSignal): Promise<SourceList<SourceUser>> {
    return readRows('user', await this.rows('/users', { sort: 'id' }, signal), userOf)
  }

  async servers(signal: AbortSignal): Promise<SourceList<SourceServer>> {
    const query = { sort: 'id', include: 'allocations,subusers' }
    return readRows('server', await this.rows('/servers', query, signal), serverOf)
  }

  async server(id: string, signal: AbortSignal): Promise<SourceServer | undefined> {
    const query = { include: 'allocations,subusers' }
    const answer = await this.find({ api: 'application', path: pathOf`/servers/${id}`, query }, signal)
    return answer === undefined ? undefined : readItem('server', answer, serverOf)
  }

  async allocations(nodeId: string, signal: AbortSignal): Promise<SourceList<SourceAllocation>> {
    const rows = await this.rows(pathOf`/nodes/${nodeId}/allocations`, {}, signal)
    return readRows('allocation', rows, (row) => allocationOf(row, null))
  }

  async subusers(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceSubuser>> {
    if (server.subusers !== null) return { items: server.subusers, unreadable: [] }
    return readRows('subuser', await this.rowsOfServer(server, '/users', {}, signal), subuserOf)
  }

  async databases(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceDatabase>> {
    const query = { include: 'password,host' }
    const rows = await this.rows(pathOf`/servers/${server.id}/databases`, query, signal)
    return readRows('database', rows, databaseOf)
  }

  async schedules(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceSchedule>> {
    return schedulesOf(await this.rowsOfServer(server, '/schedules', {}, signal))
  }

  async backups(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceBackup>> {
    const query = { per_page: String(BACKUPS_PER_PAGE) }
    return readRows('backup', await this.rowsOfServer(server, '/backups', query, signal), backupOf)
  }

  losses(users: readonly SourceUser[]): readonly SourceLoss[] {
    return [
      { what: 'passwords of users', count: users.length, why: 'the source shows none; each user sets a new one' },
      {
        what: 'second factors and passkeys',
        count: users.filter(({ hasTwoFactor }) => hasTwoFactor).length,
        why: 'the source shows none; users enrol again',
      },
      { what: 'API keys of users', count: null, why: 'the source shows them to their owners alone, and only once' },
      { what: 'SSH keys of users', count: null, why: 'the source shows those of the account of the key alone' },
      { what: 'activity logs', count: null, why: 'they are about a panel that is no longer in use' },
      { what: 'passwords of database hosts', count: null, why: 'the source shows none; name a host here' },
      ...this.ownLosses(),
    ]
  }

  async probe(signal: AbortSignal): Promise<SourceProbe> {
    const missing: string[] = []
    const reads: Partial<Record<SourceKind, SourceRight>> = {}
    const counts: Partial<Record<SourceKind, number>> = {}
    const firstIds = new Map<string, string>()
    const enter = (kind: SourceKind, found: FirstPage | null): void => {
      reads[kind] = found === null ? 'no' : 'yes'
      if (found === null)
        missing.push(`the key may not read ${kind}s; give it that right, or use an administrator's key`)
    }
    for (const [kind, path] of this.lists) {
      const found = await this.#lookAtKind(kind, path, signal)
      enter(kind, found)
      if (found === null) continue
      if (found.total !== null) counts[kind] = found.total
      if (found.firstId !== null) firstIds.set(path, found.firstId)
    }
    for (const [kind, path, part] of this.parts) {
      const id = firstIds.get(path)
      if (id === undefined) reads[kind] = 'unknown'
      else enter(kind, await this.#lookAtKind(kind, `${path}/${encodeURIComponent(id)}${part}`, signal))
    }
    const clientApi = await this.#clientApi(counts.server, missing, signal)
    return { flavor: this.flavor, version: this.version, reads, counts, missing, clientApi }
  }

  /** Whether the key of an account reaches the servers of everybody. */
  async #clientApi(servers: number | undefined, missing: string[], signal: AbortSignal): Promise<SourceRight> {
    let found: FirstPage | null
    try {
      found = await this.#lookAt({ api: 'client', path: '', query: { type: 'admin-all', per_page: '1' } }, signal)
    } catch (error) {
      if (!(error instanceof SourceFailure) || error.problem !== 'auth') throw error
      missing.push(`the key of the account: ${error.message}`)
      return 'no'
    }
    if (found === null) {
      missing.push(
        "schedules, backups and files need a key of an administrator's account; a key of the application is none",
      )
      return 'no'
    }
    if (servers !== undefined && found.total !== null && found.total < servers) {
      missing.push(`the account of the key reaches ${found.total} of ${servers} servers; use an administrator's`)
      return 'no'
    }
    return 'yes'
  }

  async #lookAtKind(kind: SourceKind, path: string, signal: AbortSignal): Promise<FirstPage | null> {
    const request = { api: 'application', path, query: { per_page: '1' } } as const
    try {
      return await this.#lookAt(kind === 'egg' ? { ...request, attempts: FEW_ATTEMPTS } : request, signal)
    } catch (error) {
      // One egg that cannot be shown costs the list; the others are read one by one.
      const isList = kind === 'egg' && error instanceof SourceFailure && error.problem === 'broken'
      if (isList) return { total: null, firstId: null }
      throw error
    }
  }

  /** `null`: the key may not read it. */
  async #lookAt(request: Omit<SourceRequest, 'method'>, signal: AbortSignal): Promise<FirstPage | null> {
    try {
      const { rows, total } = pageOf(await this.http.request({ method: 'GET', ...request }, signal), request.path)
      const id = keyOf(rows[0])
      return { total, firstId: typeof id === 'number' || typeof id === 'string' ? String(id) : null }
    } catch (error) {
      if (error instanceof SourceFailure && error.problem === 'denied') return null
      throw error
    }
  }

  /** All rows of a list of the administration. */
  protected async rows(
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
    attempts?: number,
  ): Promise<readonly unknown[]> {
    const paged = { per_page: String(PER_PAGE), ...query }
    return await this.#pages({ api: 'application', path, query: paged, attempts, most: MOST_PAGES }, signal)
  }

  /** All rows of a list of one server. */
  protected async rowsOfServer(
    server: SourceServer,
    path: string,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<readonly unknown[]> {
    const whole = `${pathOf`/servers/${server.uuid}`}${path}`
    return await this.#pages({ api: 'client', path: whole, query, most: FEW_PAGES }, signal)
  }

  async #pages(
    {
      api,
      path,
      query,
      attempts,
      most,
    }: {
      readonly api: SourceApi
      readonly path: string
      readonly query: Readonly<Record<string, string>>
      readonly attempts?: number | undefined
      readonly most: number
    },
    signal: AbortSignal,
  ): Promise<readonly unknown[]> {
    // Pages shift while things come and go: a row that was seen already is the same one.
    const rows = new Map<unknown, unknown>()
    let length = 0
    const onAnswer = (more: number): void => {
      length += more
    }
    for (let page = 1; page <= most; page++) {
      const asked = page === 1 ? query : { ...query, page: String(page) }
      const more = attempts === undefined ? { onAnswer } : { onAnswer, attempts }
      const answer = await this.http.request({ api, method: 'GET', path, query: asked, ...more }, signal)
      const { rows: some, isLast } = pageOf(answer, path)
      const before = rows.size
      for (const row of some) rows.set(keyOf(row), row)
      if (isLast) return [...rows.values()]
      if (rows.size === before) throw new SourceFailure('not-a-source', `${path} of the source repeats its pages`)
      if (rows.size > MOST_ROWS || length > MOST_LIST_CHARACTERS) break
    }
    throw new SourceFailure('not-a-source', `${path} of the source is longer than any list of such a panel`)
  }

  /** The answer, or `undefined` where there is nothing. */
  protected async find(request: Omit<SourceRequest, 'method'>, signal: AbortSignal): Promise<unknown> {
    try {
      return await this.http.request({ method: 'GET', ...request }, signal)
    } catch (error) {
      if (error instanceof SourceFailure && error.problem === 'missing') return undefined
      throw error
    }
  }
}

interface FirstPage {
  /** `null`: the source cannot say it. */
  readonly total: number | null
  readonly firstId: string | null
}

/** What makes a row itself; one without any is only itself. */
function keyOf(row: unknown): unknown {
  const attributes: unknown = typeof row === 'object' && row !== null ? Reflect.get(row, 'attributes') : undefined
  if (typeof attributes !== 'object' || attributes === null) return row
  return Reflect.get(attributes, 'id') ?? Reflect.get(attributes, 'uuid') ?? row
}
