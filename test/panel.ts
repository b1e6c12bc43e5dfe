import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import type { App } from '../src/daemon/app.ts'
import type { SettingKey, SettingValue } from '../src/daemon/core/settings.ts'
import { killServer } from '../src/shared/api/power.ts'
import { listServers } from '../src/shared/api/servers.ts'
import { type Client, createClient } from '../src/shared/client.ts'
import type { ServerId } from '../src/shared/kernel/ids.ts'
import { type Clock, systemClock } from '../src/shared/kernel/time.ts'
import { betweenLooks } from './looks.ts'
import { placeDatabase } from './new-database.ts'
import { DIST } from './run-panel.ts'

type DaemonModule = typeof import('../src/daemon/main.ts')
type FirstRunModule = typeof import('../src/daemon/start/first-run.ts')
type EmbeddedModule = typeof import('../src/daemon/embedded-agent.ts')
type ConfigModule = typeof import('../src/daemon/config/config.ts')
type LogModule = typeof import('../src/daemon/core/log.ts')

/** A daemon of its own for one test file: real HTTP on loopback, real database in a temporary folder. */
export interface TestPanel {
  readonly url: string
  /** The unix socket of {@link PanelOptions.localSocket}. */
  readonly socket: string
  /** An API key that may do everything and has no limits. */
  readonly adminToken: string
  /** A HOME for command-line runs. */
  readonly home: string
  readonly dataDir: string
  /** The node that {@link PanelOptions.agent} runs, or the row of one without an agent. */
  readonly nodeId: string
  readonly locationId: string
  /** Everything the daemon has logged, as text. */
  readonly log: () => string
  readonly client: Client
  /** A client with another credential, or none. */
  as(token: string | undefined): Client
  /** Takes it back that this account has confirmed its address. */
  unverify(userId: string): Promise<void>
  /** Changes a setting as its endpoint does. */
  configure<K extends SettingKey>(key: K, value: SettingValue<K>): Promise<void>
  /** The wired daemon, for what has no endpoint yet, such as jobs of types that only a test has. */
  readonly app: App
  close(): Promise<void>
}

/** How a test's daemon differs from a plain one. */
export interface PanelOptions {
  /** Runs the embedded agent with the process runtime, so that servers really run. */
  readonly agent?: boolean
  /** The agent takes SSH connections, on a port of its own or on this one. */
  readonly sftp?: boolean | number
  /** At this address instead of 127.0.0.1. */
  readonly sftpHost?: string
  /** Leaves the database without an administrator. */
  readonly empty?: boolean
  readonly clock?: Clock
  /** `undefined` takes a variable away that a test's daemon has by default. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Uses (and keeps) this data folder. */
  readonly dataDir?: string
  /** Serves the unix socket of `panel up` too. */
  readonly localSocket?: boolean
}

/** Starts a daemon as `panel up` does, without its screen. The compiled program runs, so that holders can be started from it. */
export async function startPanel(options: PanelOptions = {}): Promise<TestPanel> {
  const load = <T>(path: string): Promise<T> => import(join(DIST, 'src/daemon', path))
  const { startDaemon } = await load<DaemonModule>('main.js')
  const { addStarters, ensureLocal } = await load<FirstRunModule>('start/first-run.js')
  const { startEmbeddedAgent } = await load<EmbeddedModule>('embedded-agent.js')
  const { readConfig } = await load<ConfigModule>('config/config.js')
  const { createLog } = await load<LogModule>('core/log.js')
  const home = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'panel-test-')))
  const dataDir = join(home, 'data')
  const env = {
    HOME: home,
    PANEL_CREDENTIAL_KEY: 'ab'.repeat(32),
    // Receivers of the tests are on this machine.
    PANEL_WEBHOOKS__ALLOWED_RANGES: '127.0.0.0/8',
    PANEL_LIMITS__REQUESTS_PER_MINUTE: '1000000',
    PANEL_LIMITS__AUTH_REQUESTS_PER_MINUTE: '1000000',
    ...options.env,
  }
  const lines: string[] = []
  const destination = new Writable({
    write: (chunk, _, done) => {
      lines.push(String(chunk))
      done()
    },
  })
  const log = createLog({ level: 'debug', destination })
  const config = { ...readConfig({ dataDir, listen: '127.0.0.1:0' }, env), localSocket: options.localSocket ?? false }
  const clock = options.clock ?? systemClock
  // As the daemon makes them: games enter the one and nobody the other.
  await mkdir(dataDir, { recursive: true, mode: 0o711 })
  await mkdir(join(dataDir, 'db'), { recursive: true, mode: 0o700 })
  await placeDatabase(join(dataDir, 'db', 'panel.db'))
  const daemon = await startDaemon(config, { log, clock })
  const { db, settings } = daemon.app.core
  const as = (token: string | undefined): Client => createClient({ baseUrl: daemon.url, token, fetch })
  const configure: TestPanel['configure'] = (key, value) => db.write((tx) => settings.set(tx, key, value))
  const unverify = (userId: string): Promise<void> =>
    db.write(async (tx) => {
      await tx.q.updateTable('user').set({ emailVerified: 0 }).where('id', '=', userId).execute()
    })
  const bare = {
    app: daemon.app,
    url: daemon.url,
    socket: daemon.socket ?? '',
    home,
    dataDir,
    log: () => lines.join(''),
    as,
    configure,
    unverify,
  }
  const ended = (): void => {
    const undeclared = lines.filter((line) => line.includes('endpoint answered an undeclared error code'))
    if (undeclared.length > 0) throw new Error(undeclared.join(''))
  }
  const remove = (): Promise<void> =>
    options.dataDir === undefined ? rm(home, { recursive: true, force: true }) : Promise.resolve()
  if (options.empty === true) {
    const close = (): Promise<void> => daemon.close().then(remove).then(ended)
    return { ...bare, adminToken: '', nodeId: '', locationId: '', client: as(undefined), close }
  }
  if (options.agent === true) await addStarters(daemon.app)
  const local = await ensureLocal(daemon.app, dataDir, { demo: false })
  const place = { dataDir, host: '127.0.0.1', sftp: sftpOf(options) }
  const online = options.agent === true ? onlineIn(daemon.app, local.nodeId) : undefined
  const agent =
    options.agent === true ? await startEmbeddedAgent(daemon, { ...local, ...place, clock, log }) : undefined
  await online
  const row = await daemon.app.core.db.read
    .selectFrom('node')
    .select('locationId')
    .where('id', '=', local.nodeId)
    .executeTakeFirstOrThrow()
  return {
    ...bare,
    adminToken: local.token,
    nodeId: local.nodeId,
    locationId: row.locationId,
    client: as(local.token),
    close: async () => {
      if (agent !== undefined) await endServers(as(local.token), daemon.app, local.nodeId)
      await agent?.stop()
      await daemon.close()
      await remove()
      ended()
    },
  }
}

function sftpOf({ sftp = false, sftpHost }: PanelOptions) {
  const at = { enabled: sftp !== false, port: typeof sftp === 'number' ? sftp : 0 }
  return sftpHost === undefined ? at : { ...at, host: sftpHost }
}

/** Ends what runs, and what an order has yet to start, so that no game outlives the test that started it. */
async function endServers(client: Client, { core }: App, nodeId: string): Promise<void> {
  const running = async () =>
    (await client.call(listServers, { query: { limit: 100 } })).filter(({ pid }) => pid !== null)
  const starting = () =>
    core.db.read
      .selectFrom('command')
      .select('id')
      .where('nodeId', '=', nodeId)
      .where('state', 'in', ['queued', 'accepted'])
      .where('op', 'in', ['start', 'restart'])
      .execute()
  const killed = new Set<ServerId>()
  for (const start = performance.now(); ; await betweenLooks(start)) {
    const [left, coming] = [await running(), await starting()]
    if (left.length + coming.length === 0) return
    if (performance.now() > start + 15_000) throw new Error('some games of this test do not end')
    // A server that ends or is deleted at this moment refuses; what matters is that nothing is left.
    for (const { id: serverId } of left.filter(({ id }) => !killed.has(id))) {
      await client.call(killServer, { params: { serverId } }).then(
        () => killed.add(serverId),
        () => undefined,
      )
    }
  }
}

/** Resolves when the node has come in, and after a while in any case: some tests are about nodes that cannot. */
function onlineIn({ core: { bus } }: App, nodeId: string): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer)
      stop()
      resolve()
    }
    const timer = setTimeout(done, 5000).unref()
    const stop = bus.listen(({ type, data }) => {
      if (type === 'node_updated' && data['nodeId'] === nodeId && data['isOnline'] === true) done()
    })
  })
}
