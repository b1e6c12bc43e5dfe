import { createHistogram, performance } from 'node:perf_hooks'
import { Gauge, type Registry } from 'prom-client'

/** How often is looked while the process works, and while it has nothing to do. */
const BUSY_MS = 20
const IDLE_MS = 1000
/** The share of its time from which on it works. */
const BUSY_SHARE = 0.05
/** The pace of a monitor of Node's that is not to wake the process: 24 days. */
export const NEVER_MS = 2 ** 31 - 1

const HELP = {
  nodejs_eventloop_lag_seconds: 'How late the last timer was, in seconds.',
  nodejs_eventloop_lag_min_seconds: 'The least delay of timers since the last scrape.',
  nodejs_eventloop_lag_max_seconds: 'The greatest delay of timers since the last scrape.',
  nodejs_eventloop_lag_mean_seconds: 'The mean delay of timers since the last scrape.',
  nodejs_eventloop_lag_stddev_seconds: 'The standard deviation of the delays of timers since the last scrape.',
  nodejs_eventloop_lag_p50_seconds: 'The 50th percentile of the delays of timers since the last scrape.',
  nodejs_eventloop_lag_p90_seconds: 'The 90th percentile of the delays of timers since the last scrape.',
  nodejs_eventloop_lag_p99_seconds: 'The 99th percentile of the delays of timers since the last scrape.',
} as const

type LagName = keyof typeof HELP

/**
 * Replaces the metrics of the event loop that come with prom-client, under their names: those keep a timer of 10 ms for ever. This
 * one looks 50 times a second while the process works, and once while it does not, until `ended`.
 */
export function registerEventLoopLag(registry: Registry, ended: AbortSignal): void {
  const delays = createHistogram()
  let lastNs = 0
  follow((ns) => {
    lastNs = ns
    delays.record(Math.max(1, Math.round(ns)))
  }, ended)
  const gauges = new Map<LagName, Gauge>()
  const collect = (): void => {
    const ns: Readonly<Record<LagName, number>> = {
      nodejs_eventloop_lag_seconds: lastNs,
      nodejs_eventloop_lag_min_seconds: delays.count === 0 ? 0 : delays.min,
      nodejs_eventloop_lag_max_seconds: delays.max,
      nodejs_eventloop_lag_mean_seconds: delays.mean,
      nodejs_eventloop_lag_stddev_seconds: delays.stddev,
      nodejs_eventloop_lag_p50_seconds: delays.percentile(50),
      nodejs_eventloop_lag_p90_seconds: delays.percentile(90),
      nodejs_eventloop_lag_p99_seconds: delays.percentile(99),
    }
    for (const [name, gauge] of gauges) gauge.set(Number.isNaN(ns[name]) ? 0 : ns[name] / 1e9)
    delays.reset()
  }
  for (const name of Object.keys(HELP) as LagName[]) {
    registry.removeSingleMetric(name)
    // The first one that is asked for sets all of them.
    const first = name === 'nodejs_eventloop_lag_seconds' ? { collect } : {}
    gauges.set(name, new Gauge({ name, help: HELP[name], registers: [registry], ...first }))
  }
}

/** Measures by how many nanoseconds a timer is late, again and again until `ended`; it does not prolong the life of the process. */
function follow(record: (ns: number) => void, ended: AbortSignal): void {
  let timer: NodeJS.Timeout
  let before = performance.eventLoopUtilization()
  const wait = (pauseMs: number): void => {
    const due = process.hrtime.bigint() + BigInt(pauseMs) * 1_000_000n
    timer = setTimeout(() => {
      record(Number(process.hrtime.bigint() - due))
      const now = performance.eventLoopUtilization()
      const { utilization } = performance.eventLoopUtilization(now, before)
      before = now
      wait(utilization > BUSY_SHARE ? BUSY_MS : IDLE_MS)
    }, pauseMs)
    timer.unref()
  }
  wait(IDLE_MS)
  ended.addEventListener('abort', () => clearTimeout(timer))
}
