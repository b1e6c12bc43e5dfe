import { Counter, Gauge, type Registry } from 'prom-client'

/** What the gateway counts. */
export interface GatewayMetrics {
  frame(type: string): void
  skipped(): void
  protocolError(): void
  command(kind: 'sent' | 'resent'): void
  refused(code: string): void
  connected(nodes: number): void
}

/** The gateway's metrics in a registry. Labels never carry the ids of nodes or servers. */
export function createGatewayMetrics(registry: Registry): GatewayMetrics {
  const registers = [registry]
  const frames = new Counter({
    name: 'panel_gateway_frames_total',
    help: 'Frames received from agents',
    labelNames: ['type'],
    registers,
  })
  const skipped = new Counter({
    name: 'panel_gateway_skipped_frames_total',
    help: 'Frames of types that this version does not know',
    registers,
  })
  const errors = new Counter({
    name: 'panel_gateway_protocol_errors_total',
    help: 'Connections ended because an agent did not keep to the protocol',
    registers,
  })
  const commands = new Counter({
    name: 'panel_gateway_commands_total',
    help: 'Commands sent to agents, first and repeated',
    labelNames: ['kind'],
    registers,
  })
  const refusals = new Counter({
    name: 'panel_gateway_refused_total',
    help: 'Upgrade requests that were refused',
    labelNames: ['code'],
    registers,
  })
  const nodes = new Gauge({
    name: 'panel_gateway_connected_nodes',
    help: 'Nodes with a connection that is ready',
    registers,
  })
  return {
    frame: (type) => frames.inc({ type }),
    skipped: () => skipped.inc(),
    protocolError: () => errors.inc(),
    command: (kind) => commands.inc({ kind }),
    refused: (code) => refusals.inc({ code }),
    connected: (count) => nodes.set(count),
  }
}
