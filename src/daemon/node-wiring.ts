import type { IncomingMessage } from 'node:http'
import proxyAddr from '@fastify/proxy-addr'
import type { Clock } from '../shared/kernel/time.ts'
import type { Capability } from '../shared/protocol/define.ts'
import { watchStats } from '../shared/protocol/server.ts'
import type { Config } from './config/config.ts'
import type { Metrics } from './core/metrics.ts'
import type { ShortReads } from './core/short-reads.ts'
import type { Core } from './core-wiring.ts'
import type { Db } from './db/db.ts'
import { isStorageFailure } from './db/sqlite/failures.ts'
import { createNodeKeys } from './features/fleet/nodes/keys.ts'
import { createNodeLink, type NodeLink } from './features/fleet/nodes/link.ts'
import { PortLooks } from './features/fleet/nodes/port-looks.ts'
import { NodeUsageBoard } from './features/fleet/nodes/usage.ts'
import { createConsole } from './features/servers/console/hub.ts'
import { CommandReports } from './features/servers/servers/command-progress.ts'
import { createServerLink } from './features/servers/servers/link.ts'
import { LiveStates } from './features/servers/servers/live-states.ts'
import type { BeforeDelete } from './features/servers/servers/remove.ts'
import type { ServerRow } from './features/servers/servers/rows.ts'
import type { OnSuspension } from './features/servers/servers/suspend.ts'
import { TemplateViews } from './features/servers/servers/template-views.ts'
import { type CommandFrame, UnstoredOrders } from './features/servers/servers/unstored-orders.ts'
import { ServerUsageBoard } from './features/servers/servers/usage.ts'
import { createGateway, type Gateway } from './gateway/gateway.ts'
import type { GatewayHandlers } from './gateway/handlers.ts'
import { TransferSlots } from './gateway/transfer-slots.ts'
import { Transfers } from './gateway/transfers.ts'

/** What the side towards the nodes is made of. */
export interface NodeWiringParts {
  readonly core: Core
  readonly config: Config
  readonly version: string
  readonly metrics: Metrics
  readonly reads: ShortReads
  readonly beforeDelete: BeforeDelete
  readonly onSuspension: OnSuspension
}

/** The gateway and all that listens to it or speaks through it: node and server links, consoles, usage. */
export function wireNodes({ core, config, version, metrics, reads, beforeDelete, onSuspension }: NodeWiringParts) {
  const { db, bus, clock, settings, log, systemErrors } = core
  const keys = createNodeKeys({ db, clock })
  const nodeUsage = new NodeUsageBoard(clock)
  const commandReports = new CommandReports()
  const transfers = new Transfers({ clock, slots: new TransferSlots(settings) })

  const isOnline = (nodeId: string): boolean => gateway.isOnline(nodeId)
  const usage = new ServerUsageBoard(clock, (nodeId, serverIds) => {
    if (!gateway.isOnline(nodeId)) return
    gateway
      .request(nodeId, watchStats, { serverIds })
      .catch((err: unknown) => log.debug({ err, nodeId }, 'cannot request usage reports'))
  })
  const live = new LiveStates(isOnline)
  const reconnect = (nodeId: string): void => gateway.disconnect(nodeId, SERVICE_RESTART)
  const send = (nodeId: string, frame: CommandFrame): void => gateway.sendCommand(nodeId, frame)
  const unstored = new UnstoredOrders({ ...core, live, isOnline, send })
  const ask: Gateway['request'] = (...of) => gateway.request(...of)
  const serverDeps = {
    ...core,
    isOnline,
    refusalOf: (nodeId: string, capabilities: readonly Capability[]) => gateway.refusalOf(nodeId, capabilities),
    beforeDelete,
    onSuspension,
    wake: (nodeId: string) => gateway.wake(nodeId),
    ask,
    portLooks: new PortLooks({ ask, isOnline, clock }),
    unstored,
    can: (nodeId: string, capability: Capability) => gateway.can(nodeId, capability),
    facts: {
      isOnline,
      usage: (serverId: string) => usage.get(serverId),
      templates: new TemplateViews(),
      observed: (row: ServerRow) => unstored.overlay(live.overlay(row)),
      isStored: ({ id, nodeId }: Pick<ServerRow, 'id' | 'nodeId'>) => !live.isBehind(nodeId) && !unstored.isGiven(id),
    },
  }
  const serverLink = createServerLink({ db, bus, clock, settings, beforeDelete, wake: serverDeps.wake })
  const nodeLink = createNodeLink({
    ...core,
    servers: serverLink,
    isOnline,
    warn: (message, about) => {
      log.warn(about, message)
      systemErrors.capture(message, { component: 'gateway', level: 'warn', metadata: about })
    },
  })
  const console = createConsole({ ...core, gateway: () => gateway })
  const gateway: Gateway = createGateway({
    db,
    clock,
    log: log.child({ component: 'gateway' }),
    version,
    reads,
    registry: metrics.registry,
    framesPerSecond: () => settings.get('limits.agentFramesPerSecond'),
    ...(config.trustedProxies.length === 0 ? {} : { addressOf: clientAddress(config.trustedProxies) }),
    verify: (nodeId, key) => keys.verify(nodeId, key),
    onError: (error, { level, nodeId }) =>
      systemErrors.capture(error, { component: 'gateway', level, metadata: nodeId === undefined ? {} : { nodeId } }),
    handlers: {
      ...nodeLink,
      ...handlersWithoutStorage({ link: nodeLink, live, unstored, db, clock, reconnect }),
      onEvents: serverLink.onEvents,
      commandFrames: serverLink.commandFrames,
      onOnline: async (nodeId) => {
        // At once: whoever begins to watch while the node's row is written would otherwise be subscribed twice.
        usage.watchAgain(nodeId)
        console.nodeOnline(nodeId)
        await orUnstored(live, nodeId, () => nodeLink.onOnline(nodeId))
      },
      onOffline: async (nodeId) => {
        console.nodeOffline(nodeId)
        unstored.disconnected(nodeId)
        await nodeLink.onOffline(nodeId)
        if (db.health().status !== 'ok') live.fallBehind(nodeId)
      },
      onCommandProgress: (nodeId, frame) => {
        commandReports.report(db.read, nodeId, frame).catch((err: unknown) => {
          log.error({ err, nodeId }, 'cannot publish command progress')
          systemErrors.capture(err, { component: 'gateway', metadata: { nodeId } })
        })
      },
      onConsole: (nodeId, frame) => console.lines(nodeId, frame),
      onConsoleGap: (nodeId, frame) => console.gap(nodeId, frame),
      onHealth: (nodeId, health) => nodeUsage.report(nodeId, health),
      onStats: (nodeId, reported) => {
        usage.report(db.read, nodeId, reported).catch((err: unknown) => {
          log.error({ err, nodeId }, 'cannot handle usage report')
          systemErrors.capture(err, { component: 'usage', metadata: { nodeId } })
        })
      },
    },
  })
  keys.onRevoked((nodeId) => gateway.disconnect(nodeId))
  return { gateway, isOnline, keys, usage, transfers, commandReports, nodeUsage, serverDeps, nodeLink, console }
}

/** The close code that has an agent connect anew at once. */
const SERVICE_RESTART = 1012

/** The handshake goes through also when nothing of it can be stored: then the node's rows are behind what it reports. */
function handlersWithoutStorage(deps: {
  readonly link: NodeLink
  readonly live: LiveStates
  readonly unstored: UnstoredOrders
  readonly db: Db
  readonly clock: Clock
  readonly reconnect: (nodeId: string) => void
}): Pick<GatewayHandlers, 'onHello' | 'onSnapshot' | 'onReports' | 'onLive' | 'onAccepted' | 'onUnstored'> {
  const { link, live, unstored, db, clock, reconnect } = deps
  /** Nodes whose present connection began with what could not be stored. */
  const halfway = new Set<string>()
  // What nodes have reported meanwhile they send again, over connections that begin with the state of all their servers.
  db.onHealth(({ status }) => {
    if (status !== 'ok') return
    for (const nodeId of live.behind()) {
      halfway.delete(nodeId)
      reconnect(nodeId)
    }
  })
  return {
    onHello: async (nodeId, hello) => {
      halfway.delete(nodeId)
      const known = await orUnstored(live, nodeId, () => link.onHello(nodeId, hello))
      if (known !== UNSTORED) return known
      halfway.add(nodeId)
      return await link.unstored.onHello(nodeId, hello)
    },
    onSnapshot: async (nodeId, snapshot) => {
      const at = { receivedMs: clock.nowMs(), ageMs: 0 }
      for (const report of snapshot.servers) live.report(nodeId, report, at)
      // Without the hello in its row nothing that follows from it may be written.
      if (halfway.has(nodeId)) return await link.unstored.onSnapshot(nodeId, snapshot)
      const known = await orUnstored(live, nodeId, () => link.onSnapshot(nodeId, snapshot))
      if (known !== UNSTORED) return known
      halfway.add(nodeId)
      return await link.unstored.onSnapshot(nodeId, snapshot)
    },
    onReports: async (nodeId, reports, about) => {
      const stored = await orUnstored(live, nodeId, () => link.onReports(nodeId, reports, about))
      if (stored !== UNSTORED && !halfway.has(nodeId)) live.catchUp(nodeId)
    },
    onLive: (nodeId, report, at) => live.report(nodeId, report, at),
    onAccepted: (nodeId, commandId) => unstored.accepted(nodeId, commandId),
    onUnstored: (nodeId) => live.fallBehind(nodeId),
  }
}

const UNSTORED = Symbol('not stored')

async function orUnstored<T>(live: LiveStates, nodeId: string, store: () => Promise<T>): Promise<T | typeof UNSTORED> {
  try {
    return await store()
  } catch (error) {
    if (!isStorageFailure(error)) throw error
    live.fallBehind(nodeId)
    return UNSTORED
  }
}

/** Where an upgrade request comes from, as Fastify finds it for other requests: proxies that are trusted are looked through. */
function clientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trustedProxies])
  return (request) => proxyAddr(request, trust)
}
