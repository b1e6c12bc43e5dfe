import type { IncomingMessage } from 'node:http'
import proxyAddr from '@fastify/proxy-addr'
import type { Config } from './config.ts'
import { createConsole } from './console/hub.ts'
import { createGateway, type Gateway } from './core/gateway/gateway.ts'
import type { Metrics } from './core/metrics.ts'
import type { Core } from './foundation.ts'
import { NodeFiguresBoard } from './nodes/figures.ts'
import { createNodeKeys } from './nodes/keys.ts'
import { createNodeLink } from './nodes/link.ts'
import { Figures } from './servers/figures.ts'
import { createServerLink } from './servers/link.ts'
import type { Leaving } from './servers/remove.ts'
import { TemplateViews } from './servers/template-views.ts'

/** What the side towards the nodes is made of. */
export interface NodeSideParts {
  readonly core: Core
  readonly config: Config
  readonly version: string
  readonly metrics: Metrics
  readonly leaving: Leaving
}

/** The gateway and all that listens to it or speaks through it: node and server links, consoles, figures. */
export function createNodeSide({ core, config, version, metrics, leaving }: NodeSideParts) {
  const { db, bus, clock, settings, log, systemErrors } = core
  const keys = createNodeKeys({ db, clock })
  const nodeFigures = new NodeFiguresBoard(clock)

  const isOnline = (nodeId: string): boolean => gateway.isOnline(nodeId)
  const figures = new Figures(clock, (nodeId, serverIds) => {
    if (!gateway.isOnline(nodeId)) return
    gateway
      .request(nodeId, { op: 'stats.watch', serverIds })
      .catch((err: unknown) => log.debug({ err, nodeId }, 'figures could not be asked for'))
  })
  const ask: Gateway['request'] = (nodeId, request, options) => gateway.request(nodeId, request, options)
  const serverDeps = {
    ...core,
    isOnline,
    leaving,
    wake: (nodeId: string) => gateway.wake(nodeId),
    ask,
    facts: { isOnline, figures: (serverId: string) => figures.get(serverId), templates: new TemplateViews() },
  }
  const serverLink = createServerLink({ db, bus, clock, settings, leaving, wake: serverDeps.wake })
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
    registry: metrics.registry,
    framesPerSecond: () => settings.get('limits.agentFramesPerSecond'),
    ...(config.trustedProxies.length === 0 ? {} : { addressOf: clientAddress(config.trustedProxies) }),
    verify: (nodeId, key) => keys.verify(nodeId, key),
    onMishap: (error, { level, nodeId }) =>
      systemErrors.capture(error, { component: 'gateway', level, metadata: nodeId === undefined ? {} : { nodeId } }),
    handlers: {
      ...nodeLink,
      onEvent: serverLink.onEvent,
      commandFrame: serverLink.commandFrame,
      onOnline: async (nodeId) => {
        // At once: whoever begins to watch while the node's row is written would otherwise be subscribed twice.
        figures.watchAgain(nodeId)
        console.nodeOnline(nodeId)
        await nodeLink.onOnline(nodeId)
      },
      onOffline: async (nodeId) => {
        console.nodeOffline(nodeId)
        await nodeLink.onOffline(nodeId)
      },
      onConsole: (nodeId, frame) => console.lines(nodeId, frame),
      onConsoleGap: (nodeId, frame) => console.gap(nodeId, frame),
      onHealth: (nodeId, health) => nodeFigures.report(nodeId, health),
      onStats: (nodeId, reported) => {
        figures.report(db.read, nodeId, reported).catch((err: unknown) => {
          log.error({ err, nodeId }, 'figures could not be read')
          systemErrors.capture(err, { component: 'figures', metadata: { nodeId } })
        })
      },
    },
  })
  keys.onRevoked((nodeId) => gateway.disconnect(nodeId))
  return { gateway, isOnline, keys, figures, nodeFigures, serverDeps, nodeLink, console }
}

/** Where an upgrade request comes from, as Fastify tells it of other requests: proxies that are trusted are looked through. */
function clientAddress(trustedProxies: readonly string[]): (request: IncomingMessage) => string {
  const trust = proxyAddr.compile([...trustedProxies])
  return (request) => proxyAddr(request, trust)
}
