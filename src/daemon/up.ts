import { resolve } from 'node:path'
import { isEventType } from '../shared/kernel/events.ts'
import { serverStatus } from '../shared/kernel/server-life.ts'
import { oneLine, terminalText } from '../shared/kernel/terminal-text.ts'
import { systemClock } from '../shared/kernel/time.ts'
import type { LogOutput } from '../shared/platform/log-output.ts'
import { type Config, defaultDataDir, readConfig } from './config/config.ts'
import { ConfigError } from './config/config-problems.ts'
import { type Log, openLog } from './core/log.ts'
import { print, printError } from './core/notices.ts'
import { watchBugs } from './core/watch-bugs.ts'
import { runningServers, startEmbeddedAgent } from './embedded-agent.ts'
import { type Daemon, EXIT_HOST, spareMemory, startDaemon, startFailure, stopSignal } from './main.ts'
import { agentDataDir } from './running.ts'
import { findHolder, inDataFolder, makeDataFolder } from './start/data-folder.ts'
import { addStarters, credentialKey, ensureLocal, freePort, keptToken, LOCAL } from './start/first-run.ts'
import { findLocalSocket } from './start/local-socket.ts'

/** What `panel up` is asked for, and the access to the command line's own files. */
interface UpOptions {
  readonly listen: string | undefined
  readonly dataDir: string | undefined
  readonly saveContext: (context: LocalContext) => Promise<void>
  readonly configDir: string
}

/** The context that talks to this panel: by its socket, which no other program can take the place of. */
interface LocalContext {
  readonly name: string
  readonly url: string
  readonly socket: string
  readonly token: string
}

const PORT = 7420
/** How long the first screen waits for the demo server to come up. */
const SETTLE_MS = 60_000

/**
 * `panel up`: daemon and local node in the foreground, everything made that is missing. A second one on the same data
 * folder shows what runs and ends. Resolves with the exit code.
 */
export async function runUp(options: UpOptions): Promise<number> {
  const dataDir = resolve(options.dataDir ?? defaultDataDir())
  try {
    return await runIn(dataDir, options)
  } catch (error) {
    const reason = startFailure(error)
    if (reason === undefined) throw error
    printError(`${reason}\n`)
    return EXIT_HOST
  }
}

async function runIn(dataDir: string, options: UpOptions): Promise<number> {
  const running = await findHolder(dataDir)
  if (running !== undefined) {
    await signInAgain(options, dataDir, running.url)
    print(
      `panel runs already (process ${running.pid}${running.isHere ? '' : ` on ${running.host}`})\n\n  API        ${running.url ?? 'starting'}\n${NEXT}`,
    )
    return 0
  }
  let config: Config
  try {
    config = await upConfig(options, dataDir)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    printError(`${error.message}\n`)
    return 2
  }
  const { log, output } = await openLog({ level: config.logLevel, format: config.logFormat })
  try {
    await runLogged(options, { dataDir, config, log, output })
  } finally {
    await output.flush()
  }
  return 0
}

interface Logged {
  readonly dataDir: string
  readonly config: Config
  readonly log: Log
  /** Also takes what is printed for people, in its order with the log. */
  readonly output: LogOutput
}

async function runLogged(options: UpOptions, { dataDir, config, log, output }: Logged): Promise<void> {
  const stopped = stopSignal(log)
  const bugs = watchBugs(log, output)
  const daemon = await startDaemon(config, { log, onLoaded: spareMemory })
  bugs.recordIn(daemon.app.core.systemErrors)
  try {
    await addStarters(daemon.app)
    const local = await ensureLocal(daemon.app, dataDir, { demo: true })
    await options.saveContext({ name: LOCAL, url: daemon.url, socket: socketOf(daemon), token: local.token })
    const embedded = await startEmbeddedAgent(daemon, { ...local, dataDir, host: config.host, clock: systemClock, log })
    try {
      await Promise.race([stopped, settled(daemon, local.nodeId)])
      output.write(terminalText(await screen(daemon, dataDir, options.configDir)))
      await Promise.race([stopped, embedded.agent.closed])
    } finally {
      await embedded.stop()
    }
  } finally {
    await daemon.close()
    output.write(terminalText(`panel has stopped; ${await gamesLeft(dataDir)}\n`))
  }
}

async function gamesLeft(dataDir: string): Promise<string> {
  const games = (await runningServers(agentDataDir({ dataDir }))).length
  if (games === 0) return 'no game runs. "panel up" starts it again.'
  return `${games === 1 ? 'one game runs' : `${games} games run`} on. "panel up" takes ${games === 1 ? 'it' : 'them'} up again.`
}

/** Brings the context back to who signed out of it, while the panel runs: the key lies in the data folder. */
async function signInAgain(options: UpOptions, dataDir: string, url: string | undefined): Promise<void> {
  const [socket, token] = [await findLocalSocket(dataDir), await keptToken(dataDir)]
  if (url !== undefined && socket !== undefined && token !== undefined)
    await options.saveContext({ name: LOCAL, url, socket, token })
}

function socketOf(daemon: Daemon): string {
  if (daemon.socket === undefined) throw new Error('the daemon of "panel up" serves no socket')
  return daemon.socket
}

async function upConfig(options: UpOptions, dataDir: string): Promise<Config> {
  await makeDataFolder(dataDir)
  const flags = { dataDir, listen: options.listen, logLevel: process.env['PANEL_LOG__LEVEL'] ?? 'warn' }
  const config = readConfig(flags)
  const listen = options.listen === undefined && config.port === PORT ? { port: await freePort(PORT, config.host) } : {}
  return {
    ...config,
    ...listen,
    credentialKey: config.credentialKey ?? (await inDataFolder(dataDir, () => credentialKey(dataDir))),
    embeddedAgent: true,
    localSocket: true,
  }
}

/** Resolves when the node is here and no server is on its way any more, or after a minute. */
async function settled(daemon: Daemon, nodeId: string): Promise<void> {
  const { core, serverDeps } = daemon.app
  const enough = new AbortController()
  const look = async (): Promise<void> => {
    // Servers that ran before are known to run: what is asked of them needs the node all the same.
    if (!serverDeps.isOnline(nodeId)) return
    const rows = await serversOf(daemon)
    if (
      rows.every(
        (row) => row.desired === 'stopped' || !['stopped', 'installing', 'starting', 'unknown'].includes(row.status),
      )
    ) {
      enough.abort()
    }
  }
  const stop = core.bus.listen((event) => {
    if (isEventType(event.type)) void look()
  })
  await look()
  await core.clock.sleep(SETTLE_MS, enough.signal)
  stop()
}

async function serversOf(daemon: Daemon) {
  const rows = await daemon.app.core.db.read
    .selectFrom('server')
    .innerJoin('allocation', 'allocation.id', 'server.allocationId')
    .innerJoin('node', 'node.id', 'server.nodeId')
    .select(['server.name', 'server.desired', 'server.power', 'server.activity', 'server.crashed', 'server.failed'])
    .select(['server.suspendedAt', 'server.archivedAt', 'server.deletingAt', 'server.reason'])
    .select(['allocation.ip', 'allocation.port', 'node.name as nodeName'])
    .orderBy('server.name')
    .limit(20)
    .execute()
  return rows.map((row) => ({
    ...row,
    status: serverStatus({ ...row, crashed: row.crashed === 1, failed: row.failed === 1 }),
  }))
}

const NEXT = `
Next, in another terminal:

  panel servers list            what runs
  panel console attach demo     its console; Ctrl-] leaves it, the game runs on
  panel servers create --help   a server of your own

(in a clone without an installation: ./panel …)
`

async function screen(daemon: Daemon, dataDir: string, configDir: string): Promise<string> {
  const servers = await serversOf(daemon)
  const lines = servers.map(({ name, status, ip, port, nodeName, reason }) =>
    oneLine(
      `  ${name.padEnd(20)} ${status.padEnd(11)} ${`${ip}:${port}`.padEnd(22)} node ${nodeName}${reason === null ? '' : `  (${reason})`}`,
    ),
  )
  return `
panel is up

  API        ${daemon.url}   (context "${LOCAL}" in ${configDir})
  Data       ${dataDir}
  Servers${servers.length === 0 ? '    none yet' : ''}
${lines.join('\n')}
${NEXT}
Ctrl-C stops daemon and node; the games run on. "panel down --servers" stops the games too.
`
}
