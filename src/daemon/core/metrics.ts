import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { NEVER_MS, registerEventLoopLag } from './event-loop-lag.ts'

/** The daemon's Prometheus metrics, counted where requests come in; the label of a route is its endpoint's id. */
export interface Metrics {
  readonly registry: Registry
  readonly requests: Counter<'endpoint' | 'status'>
  /** Requests with a credential that was right, refused ones included. */
  readonly credentialUses: Counter<'kind'>
  readonly duration: Histogram<'endpoint'>
  readonly streams: Gauge<'stream'>
  /** Finished rounds of work that comes again and again; one that begins after another has ended sees all until then. */
  readonly rounds: Counter<'work' | 'outcome'>
}

/** A registry of its own, so that two daemons in one process do not share metrics. What it measures by itself ends with `ended`. */
export function createMetrics(version: string, ended: AbortSignal): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: NEVER_MS })
  registerEventLoopLag(registry, ended)
  const registers = [registry]
  new Gauge({ name: 'panel_build_info', help: 'The running version', labelNames: ['version'], registers }).set(
    { version },
    1,
  )
  return {
    registry,
    requests: new Counter({
      name: 'panel_http_requests_total',
      help: 'Answered requests',
      labelNames: ['endpoint', 'status'],
      registers,
    }),
    credentialUses: new Counter({
      name: 'panel_http_credential_uses_total',
      help: 'Requests with a session, an API key, or a key without a limit',
      labelNames: ['kind'],
      registers,
    }),
    duration: new Histogram({
      name: 'panel_http_request_duration_seconds',
      help: 'Time from the first byte of a request to its answer',
      labelNames: ['endpoint'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10],
      registers,
    }),
    streams: new Gauge({
      name: 'panel_sse_subscribers',
      help: 'Open event streams',
      labelNames: ['stream'],
      registers,
    }),
    rounds: new Counter({
      name: 'panel_work_rounds_total',
      help: 'Finished rounds of work that is done again and again',
      labelNames: ['work', 'outcome'],
      registers,
    }),
  }
}
