import { once } from 'node:events'
import { chmod, mkdir, open } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Clock, isoTime, systemClock } from '../shared/kernel/time.ts'
import {
  collectAll,
  collectUnused,
  compactScattered,
  giveBackYoung,
  keepHeapSmall,
  keepYoungLimited,
} from '../shared/platform/collect.ts'
import { FolderInUse } from '../shared/platform/folder-lock.ts'
import type { LogOutput } from '../shared/platform/log-output.ts'
import { ExposedPath } from '../shared/platform/private-folder.ts'
import type { App } from './app.ts'
import { type Config, type ConfigFlags, readConfig } from './config/config.ts'
import { ConfigError, EXIT_CONFIG } from './config/config-problems.ts'
import { Cleanup } from './core/cleanup.ts'
import { type Log, openLog } from './core/log.ts'
import { printError } from './core/notices.ts'
import { watchBugs } from './core/watch-bugs.ts'
import { openDb } from './db/db.ts'
import { openingFailure, UnusableDatabaseError } from './db/db-health.ts'
import { beginMigration, NewerDatabaseError } from './db/migrations.ts'
import { inDataFolder, lockDataFolder, UnusableDataFolder } from './start/data-folder.ts'
import { serveLocally } from './start/local-socket.ts'
import { reachableUrl } from './start/reachable-url.ts'
import { readVersion } from './version.ts'

/** A running daemon. */
export interface Daemon {
  readonly url: string
  /** The unix socket that it serves too, where the configuration says so. */
  readonly socket: string | undefined
  readonly app: App
  /** Lets requests finish (10 s at most), closes streams and agents, and the database last. */
  close(): Promise<void>
}

/** The exit code of a start on a host that lacks something. */
export const EXIT_HOST = 14

/** Codes of errors that a full disk or a used-up quota ends in. */
const DISK_FULL = ['INSUFFICIENT_SPACE', 'SQLITE_FULL', 'ENOSPC', 'EDQUOT']

/** Errors whose message says all that a person needs. */
const EXPLAINED = [FolderInUse, UnusableDataFolder, NewerDatabaseError, UnusableDatabaseError, ExposedPath]

/** The command that starts a holder: this very program. */
export const HOLDER = [
  process.execPath,
  fileURLToPath(new URL('../../bin/panel.js', import.meta.url)),
  '__holder',
] as const

/** Opens the data folder, brings the database up to date, wires everything and listens. Calls `onLoaded` when most of the program is loaded. */
export async function startDaemon(
  config: Config,
  options: { log: Log; clock?: Clock; onLoaded?: () => void },
): Promise<Daemon> {
  const { log, clock = systemClock } = options
  const cleanup = new Cleanup()
  const folder = join(config.dataDir, 'db')
  const file = join(folder, 'panel.db')
  try {
    const lock = await lockDataFolder(config.dataDir, isoTime(clock.nowMs()))
    cleanup.add(() => lock.release())
    await inDataFolder(config.dataDir, async () => {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await chmod(folder, 0o700)
      await (await open(file, 'a', 0o600)).close() // its journal files get the same mode
    })
    const migration = await beginMigration(file)
    // Most of the program is loaded while another thread makes the tables of a new database.
    const loaded = import('./app.ts').then((app) => {
      options.onLoaded?.()
      return app
    })
    const [schema, { createApp }] = await Promise.all([migration.done, loaded])
    if (schema.from !== schema.to)
      log.info({ from: schema.from, to: schema.to, snapshot: schema.snapshot }, 'database migrated')
    const db = await openDb(file, clock)
    cleanup.add(() => db.close())
    const app = await createApp({ config, db, clock, log, version: readVersion(), holder: HOLDER, schema, cleanup })
    cleanup.add(() => app.close())
    await app.http.listen({ host: config.host, port: config.port })
    const { port } = app.http.server.address() as AddressInfo // a TCP listener has one
    const host = config.host.includes(':') ? `[${config.host}]` : config.host
    const url = `${config.tls === undefined ? 'http' : 'https'}://${host}:${port}`
    const local = config.localSocket ? await serveLocally(app.http.server, config.dataDir) : undefined
    if (local !== undefined) cleanup.add(() => local.close())
    await lock.announce(url)
    await app.begin(url)
    log.info({ url, dataDir: config.dataDir }, 'daemon ready')
    return { url, socket: local?.path, app, close: () => cleanup.run() }
  } catch (error) {
    await cleanup.run().catch((err: unknown) => log.error({ err }, 'cleanup after failed start was incomplete'))
    throw openingFailure(error, file)
  }
}

/** `panel daemon run`: in the foreground until a signal; resolves with the exit code. A second signal ends it at once. */
export async function runDaemon(flags: ConfigFlags): Promise<number> {
  return runForeground(flags, async (daemon, { log, output, config, stopped }) => {
    const { addStarters, ensureLocalNode } = await import('./start/first-run.ts')
    // A daemon whose disk is full has other things to do first.
    await addStarters(daemon.app).catch((err: unknown) =>
      log.error({ err }, 'cannot add starter templates, retrying at next start'),
    )
    if (await daemon.app.isSetupRequired()) {
      const { setupToken } = daemon.app
      await output.flush() // people read it below the lines of the start
      printError(
        `\nThis installation has no administrator yet. Its setup token (works once):\n\n    ${setupToken}\n\n` +
          `Complete it with: panel setup --url ${config.publicUrl ?? reachableUrl(daemon.url)}\n\n`,
      )
    }
    if (!config.embeddedAgent) return stopped
    const { startEmbeddedAgent } = await import('./embedded-agent.ts')
    const node = await ensureLocalNode(daemon.app)
    const embedded = await startEmbeddedAgent(daemon, {
      ...node,
      dataDir: config.dataDir,
      host: config.host,
      clock: systemClock,
      log,
    })
    await Promise.race([stopped, embedded.agent.closed])
    await embedded.stop()
  })
}

/** What a daemon in the foreground works with. */
interface Foreground {
  readonly log: Log
  readonly output: LogOutput
  readonly config: Config
  /** Resolves at the first signal, which may come while the daemon starts. */
  readonly stopped: Promise<void>
}

/** How long a start lasts, with all that goes on behind the first answer. */
const START_MS = 3000

/** Longer than V8 remembers how fast the heap was filled. */
const QUIET_MS = 5200

/** A daemon that takes more of a processor has something to do: it keeps what V8 has made for that. */
const QUIET_SHARE = 0.05

/**
 * Leaves memory to the games of the machine, from when the program is loaded: before that, code that was made ready under V8's own flags would
 * not fit. What the start has left is given back behind it, and again in quiet times, as what a busy time has left.
 */
export function spareMemory(): void {
  keepHeapSmall()
  setTimeout(() => {
    keepYoungLimited()
    collectAll()
    spareMore({ isStart: true })
  }, START_MS).unref()
}

/** After so many looks in a busy time, old objects may be moved together. */
const BUSY_LOOKS = 1

interface Sparing {
  readonly isStart: boolean
  /** In a busy time, since old objects were moved together. */
  readonly looks?: number
}

/** Looks again and again whether there is memory to give back. */
function spareMore({ isStart, looks = 0 }: Sparing): void {
  const before = process.cpuUsage()
  setTimeout(() => {
    const { user, system } = process.cpuUsage(before)
    if ((user + system) / 1000 > QUIET_MS * QUIET_SHARE) {
      const isTime = looks >= BUSY_LOOKS && compactScattered()
      // What is left of the start goes with time then: what the busy time has made ready is needed again.
      return spareMore({ isStart: false, looks: isTime ? 0 : looks + 1 })
    }
    if (isStart) collectUnused()
    else giveBackYoung() // what was called in the busy time is called in the next one
    spareMore({ isStart: false })
  }, QUIET_MS).unref()
}

/** Starts a daemon, does `work`, and stops it; says why a start fails as a person would want to read it. */
async function runForeground(
  flags: ConfigFlags,
  work: (daemon: Daemon, around: Foreground) => Promise<void>,
): Promise<number> {
  let config: Config
  try {
    config = readConfig(flags)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    printError(`${error.message}\n`)
    return EXIT_CONFIG
  }
  const { log, output } = await openLog({ level: config.logLevel, format: config.logFormat })
  for (const name of config.unknownVariables) log.warn({ name }, 'unknown environment variable')
  let daemon: Daemon
  const stopped = stopSignal(log)
  const bugs = watchBugs(log, output)
  try {
    daemon = await startDaemon(config, { log, onLoaded: spareMemory })
  } catch (error) {
    await output.flush()
    const reason = startFailure(error)
    if (reason === undefined) throw error
    printError(`${reason}\n`)
    return EXIT_HOST
  }
  bugs.recordIn(daemon.app.core.systemErrors)
  try {
    await work(daemon, { log, output, config, stopped })
  } finally {
    await daemon.close()
    log.info('daemon stopped; games run on')
    await output.flush()
  }
  return 0
}

/** Resolves at the first SIGINT or SIGTERM; from then on another one ends the process. */
export async function stopSignal(log: Log): Promise<void> {
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const first = await Promise.race(signals.map((name) => once(process, name).then(() => name)))
  log.info({ signal: first }, 'stopping')
  for (const name of signals) process.once(name, () => process.exit(name === 'SIGTERM' ? 143 : 130))
}

/** Why a daemon cannot be started, as a person would want to read it; `undefined`: nobody expected that. */
export function startFailure(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  if (EXPLAINED.some((known) => error instanceof known)) return `panel: ${error.message}`
  if (isOneOf(DISK_FULL, error)) {
    return 'panel: the disk of the data folder is full; free some space and start again'
  }
  if (isOneOf(['DATABASE_UNAVAILABLE'], error)) return `panel: ${error.message}`
  if (!('code' in error)) return undefined
  if (error.code === 'EADDRINUSE')
    return `panel: ${error.message}: another program listens there; choose one with --listen`
  if (error.code === 'ENOTFOUND' || error.code === 'EAI_AGAIN')
    return `panel: ${error.message}: this machine has no address of that name; choose one with --listen`
  if (error.code === 'EACCES' || error.code === 'EADDRNOTAVAIL' || error.code === 'EROFS')
    return `panel: ${error.message}`
  return undefined
}

/** Whether the error or what it came from has one of the codes. */
function isOneOf(codes: readonly string[], error: Error): boolean {
  if ('code' in error && typeof error.code === 'string' && codes.includes(error.code)) return true
  return error.cause instanceof Error && isOneOf(codes, error.cause)
}
