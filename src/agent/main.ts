import { rm } from 'node:fs/promises'
import { newIdSuffix } from '../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../shared/kernel/time.ts'
import { FolderInUse, type FolderLock, lockFolder } from '../shared/platform/folder-lock.ts'
import { machineBootId, thisMachine } from '../shared/platform/process-identity.ts'
import { CAPABILITIES } from '../shared/protocol/define.ts'
import { AgentNode } from './agent-node.ts'
import { finishExchanges } from './backups/exchange.ts'
import { backupFolders } from './backups/folders.ts'
import { S3Store, SignedRequests } from './backups/s3-store.ts'
import type { BackupsConfig, MigrationConfig } from './config.ts'
import { ConsoleTail } from './console/log/console-tail.ts'
import { DiskLimits } from './disk/disk-limits.ts'
import { limitedServer } from './disk/disk-room.ts'
import { DiskRooms } from './disk/disk-rooms.ts'
import { DiskUsage } from './disk/disk-usage.ts'
import { watchDisks } from './disk/disk-watch.ts'
import { AgentFailure } from './failure.ts'
import type { PullConfig } from './files/pull-ports.ts'
import { holderPaths } from './holder/holder-files.ts'
import { createBulk } from './link/bulk.ts'
import type { ConnectTarget } from './link/connect.ts'
import { urlProblem } from './link/daemon-url.ts'
import { helloFrame } from './link/hello.ts'
import { Link } from './link/link.ts'
import { answer, requestHandlers } from './link/requests.ts'
import type { SessionDeps } from './link/session.ts'
import { createStoreRequests } from './link/store-requests.ts'
import { type AgentLog, errorText } from './logger.ts'
import { MigrationSteps } from './migration/steps.ts'
import { NodeGauge } from './node/node-health.ts'
import { Stats } from './node/stats.ts'
import { PlayerWatch } from './query/player-watch.ts'
import { Rounds } from './rounds.ts'
import { DockerRuntime, type DockerRuntimeOptions } from './runtime/docker/docker-runtime.ts'
import { HeldRuns } from './runtime/held-runs.ts'
import { type AllowedMount, MountRules } from './runtime/mounts.ts'
import { ProcessRuntime } from './runtime/process/process-runtime.ts'
import { Runtimes } from './runtime/runtimes.ts'
import { ServerUsers } from './runtime/server-users.ts'
import { watchLeftovers } from './server/leftovers.ts'
import { ReadyThread } from './server/ready-matcher.ts'
import { SerialQueue } from './server/serial-queue.ts'
import { StartPlaces } from './server/start-places.ts'
import { createPanelClient } from './sftp/panel-client.ts'
import { type SftpConfig, SshServer } from './sftp/ssh-server.ts'
import { Journal } from './state/journal.ts'
import { type AgentLayout, agentLayout, makeLayout } from './state/layout.ts'

/** What an agent is started with. */
export interface AgentOptions {
  readonly dataDir: string
  /** The daemon and the node's credentials; plain http to another machine needs `allowInsecure`. */
  readonly connect: ConnectTarget
  /** The command that starts a holder; the folder of a run becomes its last argument. */
  readonly holder: readonly [string, ...string[]]
  readonly clock: Clock
  readonly log: AgentLog
  readonly version: string
  /** The folders of this machine that servers may have beside their own; none without it. */
  readonly mounts?: readonly AllowedMount[]
  /** Where files of servers may be fetched from beside public addresses at the ports of the web. */
  readonly pull?: PullConfig
  /** Where backups of local stores lie: `folder` by default, and further ones by name. Without it in the data folder. */
  readonly backups?: BackupsConfig
  /** Folders with servers of another panel that may be moved into servers; none without it. */
  readonly migration?: MigrationConfig
  /** Folders that they never get, beside the agent's own. */
  readonly ownFolders?: readonly string[]
  /** Where a container engine may listen, and what its containers are connected to. */
  readonly docker?: Partial<Pick<DockerRuntimeOptions, 'sockets' | 'network' | 'registries'>>
  /** Where files and consoles are reached over SSH; nowhere without it. */
  readonly sftp?: SftpConfig
  /** How many servers are started at the same time by the agent itself. */
  readonly starts?: { readonly atOnce?: number }
}

/** Where engines listen unless they are set up otherwise: Docker's, and Podman's for root. */
const ENGINE_SOCKETS = ['/run/docker.sock', '/run/podman/podman.sock'] as const

/** A running agent. */
export interface Agent {
  /** Resolves when the agent has ended by {@link Agent.stop}; rejects when a failure has ended it. */
  readonly closed: Promise<void>
  /** Writes everything down and lets go of the daemon. Games run on. */
  stop(): Promise<void>
}

/**
 * Starts an agent: takes the lock of its data folder, adopts what runs, takes up unfinished orders and connects. Resolves
 * when it is at work, whether or not the daemon can be reached. Throws CONFLICT_STATE while another agent has the folder.
 */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { connect } = options
  const problem =
    connect.createConnection === undefined ? urlProblem(connect.url, connect.allowInsecure ?? false) : undefined
  if (problem !== undefined) throw new AgentFailure('BAD_REQUEST', `The daemon's address ${problem}`)
  const layout = agentLayout(options.dataDir)
  await makeLayout(layout)
  backupFolders(layout, options.backups) // refused before anything is taken up
  const lock = await lockData(layout, isoTime(options.clock.nowMs()))
  try {
    const agent = await assemble(options, layout)
    return { closed: agent.closed.finally(() => lock.release()), stop: agent.stop }
  } catch (error) {
    await lock.release()
    throw error
  }
}

async function lockData({ dataDir, lockFile }: AgentLayout, startedAt: string): Promise<FolderLock> {
  const taken = await lockFolder(lockFile, startedAt)
  if ('lock' in taken) return taken.lock
  const wayOut = 'stop it first (systemctl stop panel-agent, or Ctrl-C where it runs)'
  throw new AgentFailure('CONFLICT_STATE', new FolderInUse('Another agent', dataDir, taken.holder, wayOut).message)
}

async function assemble(options: AgentOptions, layout: AgentLayout): Promise<Agent> {
  const { clock, log, dataDir } = options
  const ending = new AbortController()
  const journal = await Journal.open({ folder: layout.journalDir, clock, log })
  const runs = new HeldRuns({ execArgv: options.holder, clock })
  const users = new ServerUsers(dataDir)
  const { docker = {} } = options
  const { sockets = ENGINE_SOCKETS, network = 'bridge', registries = {} } = docker
  const runtimes = new Runtimes([
    new ProcessRuntime({ dataDir, runs, users, clock }),
    new DockerRuntime({ dataDir, runs, users, sockets, network, registries, clock }),
  ])
  const parts = {
    clock,
    log,
    journal,
    layout,
    runtimes,
    runs,
    sockets: runs.sockets,
    rounds: new Rounds(clock),
    disk: new DiskUsage(clock),
    rooms: new DiskRooms(ending.signal),
    configThreads: new SerialQueue(),
    mountRules: new MountRules(options.mounts ?? [], [
      dataDir,
      ...(options.ownFolders ?? []),
      ...Object.values(options.backups?.folders ?? {}),
      ...(options.backups?.folder === undefined ? [] : [options.backups.folder]),
      ...sockets,
    ]),
    pull: options.pull ?? {},
    limits: new DiskLimits({ dataDir, clock, log }),
    readyThread: new ReadyThread(clock, ending.signal),
    starts: new StartPlaces(clock, options.starts?.atOnce),
    openLog: (place: { state: string }) => new ConsoleTail(holderPaths(place.state).log),
    bootId: await machineBootId(),
    random: Math.random,
    ending: ending.signal,
  }
  const node = new AgentNode(parts, {
    accepted: (id) => link.sendOrDrop({ type: 'command.accepted', id }),
    progress: (id, serverId, progress) => link.sendIfIdle({ type: 'command.progress', id, serverId, progress }),
  })
  const gauge = new NodeGauge(dataDir)
  const players = new PlayerWatch({
    context: node.context,
    servers: node.servers,
    isWatched: (id) => stats.isWatched(id),
  })
  const stats = new Stats({
    context: node.context,
    servers: node.servers,
    gauge,
    players,
    send: (frame) => link.sendIfIdle(frame),
  })
  const { servers } = node
  const sftp =
    options.sftp === undefined
      ? undefined
      : new SshServer({
          config: options.sftp,
          panel: createPanelClient(options.connect),
          ...{ dataDir, servers, clock, log, ending: ending.signal },
        })
  const migrations = new MigrationSteps({ layout, clock, log, ending: ending.signal })
  const deps = sessionDeps(options, { node, stats, sftp, migrations, bootId: newIdSuffix(clock) })
  const link = new Link({ target: options.connect, deps, random: Math.random })
  // Nothing goes on where it was: the daemon asks anew.
  await rm(layout.backupWorkDir, { recursive: true, force: true })
  const exchanged = await finishExchanges(layout, log)
  await migrations.begin()
  await node.begin()
  for (const id of exchanged) {
    const server = node.servers.get(id)
    if (server !== undefined) await parts.limits.replaced(limitedServer(server))
  }
  await sftp?.start()
  log.info({ dataDir, servers: node.servers.size }, 'agent started')
  const { context } = node
  const watching = [watchDisks(context, servers), watchLeftovers(context, servers)]
  const work = Promise.all([link.run(ending.signal), stats.run(), players.run(), ...watching])
  const closed = finish(work, { ending, journal, sftp })
  closed.catch((error: unknown) => log.error({ err: errorText(error) }, 'agent failed'))
  const stop = async (): Promise<void> => {
    ending.abort()
    await closed
  }
  return { closed, stop }
}

/** Waits for the loops and closes the journal behind them; when one loop fails, the others end as well. */
async function finish(
  work: Promise<unknown>,
  { ending, journal, sftp }: { ending: AbortController; journal: Journal; sftp: SshServer | undefined },
): Promise<void> {
  try {
    await work
  } finally {
    ending.abort()
    await sftp?.stop()
    await journal.close()
  }
}

function sessionDeps(
  options: AgentOptions,
  inside: { node: AgentNode; stats: Stats; sftp: SshServer | undefined; migrations: MigrationSteps; bootId: string },
): SessionDeps {
  const { clock, log, version, dataDir } = options
  const { node, stats, sftp, migrations, bootId } = inside
  const { servers } = node
  const { journal, layout, runtimes, limits } = node.context
  const capabilities = [...CAPABILITIES, ...runtimes.names.map((name) => `runtime.${name}@1`)]
  const handlers = requestHandlers({
    servers,
    bulk: createBulk(options.connect),
    backups: backupFolders(layout, options.backups),
    backupMarksFile: layout.backupMarksFile,
    workFolder: layout.backupWorkDir,
    objectStore: objectStores(options),
    migrations,
    migrationRoots: options.migration?.roots ?? [],
    pull: options.pull ?? {},
    dataDir,
    stats,
    sftp,
    holdings: { servers, journal, layout, runtimes },
  })
  return {
    clock,
    log,
    journal,
    hello: async () => {
      // The embedded agent gets a new key with each start of its process, so nobody can have a copy of it.
      const machine =
        options.connect.createConnection === undefined ? await thisMachine(options.connect.nodeId) : undefined
      return await helloFrame({
        version,
        bootId,
        dataDir,
        journal,
        runtimes,
        limits,
        machine,
        capabilities,
        sftp: sftp?.report,
      })
    },
    snapshot: () => node.snapshot(),
    command: (frame) => node.commands.receive(frame),
    request: ({ id, request }, context) => answer(handlers, { id, request, log }, context),
    cancel: (commandId) => node.commands.cancel(commandId),
    ready: (answer) => {
      node.settle(answer)
      log.info({ nodeId: options.connect.nodeId }, 'connected to the daemon')
      // The daemon says anew what it watches, and wants stats to show at once.
      stats.watch([])
      stats.sendAnew()
      stats.sendHealth()
      void sftp?.check()
    },
  }
}

/** Object stores are reached with what the daemon signs. */
function objectStores({ connect }: AgentOptions): (ticket: string) => S3Store {
  const [daemon, requests] = [createStoreRequests(connect), new SignedRequests()]
  return (ticket) => new S3Store(ticket, daemon, requests)
}

export { type AgentConfig, ConfigError, readConfig, readEmbeddedConfig, unknownVariables } from './config.ts'
export { enroll } from './link/enroll.ts'
export type { SftpConfig } from './sftp/ssh-server.ts'
export { type NodeCredentials, readNodeFile } from './state/node-file.ts'
