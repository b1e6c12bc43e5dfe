import type { BareFeedAnswer, BareFeedQuestion } from './bare-feed.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeast, exactly, type Figure, type Figures, type Measurement, shown, under } from './figure.ts'
import { Helper, usage } from './processes.ts'
import { talkativeServer } from './talkative-server.ts'
import type { ViewerQuestion, ViewersSeen } from './viewers.ts'
import { pause } from './waiting.ts'

const SETTLE_MS = 3000
const WINDOW_MS = 10_000
/** Viewers of one process. */
const SHARE = 1000
/** A bare feed passes on lines about as often as the daemon does to 500 viewers. */
const BARE_EVERY_MS = 31

/** A stage: so many lines per second to so many viewers, and what delays (ms) and the daemon's CPU (% of a core) must stay under. */
interface Stage {
  readonly viewers: number
  readonly linesPerSecond: number
  readonly p99?: number
  readonly latest?: number
  readonly cpu?: number
  /** Whether the same is measured of a program that does nothing else. */
  readonly withBare?: boolean
}

/** 1,000 lines per second of a real game to 50, 500 and 2,000 viewers. */
export const fanOut: Measurement = async (progress) => {
  const figures: Figures = {}
  for (const each of [
    { viewers: 50, p99: 30 },
    { viewers: 500, p99: 40, cpu: 15, withBare: true },
    { viewers: 2000, p99: 150 },
  ]) {
    Object.assign(figures, await stage({ ...each, linesPerSecond: 1000 }, progress))
  }
  return figures
}

/** 10,000 lines per second of a real game to one viewer. */
export const oneViewer: Measurement = (progress) => stage({ viewers: 1, linesPerSecond: 10_000 }, progress)

/** 50,000 lines per second of a real game to 50 viewers: none is lost, and none comes later than two seconds. */
export const flood: Measurement = (progress) => stage({ viewers: 50, linesPerSecond: 50_000, latest: 2000 }, progress)

async function stage(
  { viewers, linesPerSecond, p99, latest, cpu, withBare }: Stage,
  progress: (text: string) => void,
): Promise<Figures> {
  const panel = await BenchPanel.enter()
  try {
    await panel.startAgent()
    const serverId = await talkativeServer(panel, linesPerSecond)
    const path = `/api/servers/${serverId}/console/stream?lines=0`
    const at = { url: panel.url, token: panel.token, path }
    const { found, used, besides } = await watched(at, viewers, { pid: panel.daemonPid, beside: panel.agentPid })
    const perViewer = found.lines / viewers / (WINDOW_MS / 1000)
    progress(
      `${viewers} viewers: p99 ${found.p99} ms, ${perViewer.toFixed(0)} lines/s each, CPU ${used.cpu.toFixed(0)} %`,
    )
    const name = `${viewers}viewers`
    return {
      [`${name}.lost`]: exactly(found.lost, 0, 'lines'),
      [`${name}.outOfOrder`]: exactly(found.disordered, 0, 'lines'),
      [`${name}.ended`]: exactly(found.ended, 0, 'streams'),
      [`${name}.delivered`]: atLeast(perViewer, linesPerSecond * 0.97, 'lines/s to each viewer'),
      [`${name}.delayP50`]: shown(found.p50, 'ms'),
      [`${name}.delayP99`]: limited(found.p99, p99, 'ms'),
      [`${name}.delayMax`]: limited(found.max, latest, 'ms'),
      [`${name}.daemonCpu`]: limited(used.cpu, cpu, '% of a core'),
      [`${name}.daemonRss`]: shown(used.rss, 'MiB'),
      [`${name}.agentCpu`]: shown(besides.cpu, '% of a core'),
      ...(withBare ? await bareStage(viewers, linesPerSecond, progress) : {}),
    }
  } finally {
    await panel.leave()
  }
}

/** What a program takes that only writes as many lines to as many viewers. */
async function bareStage(viewers: number, linesPerSecond: number, progress: (text: string) => void): Promise<Figures> {
  const feed = new Helper('bare-feed')
  try {
    const question: BareFeedQuestion = { linesPerSecond, everyMs: BARE_EVERY_MS }
    const { url } = await feed.ask<BareFeedAnswer>(question)
    const { found, used } = await watched({ url, token: '', path: '/' }, viewers, { pid: feed.pid, beside: feed.pid })
    progress(`${viewers} viewers of a bare feed: p99 ${found.p99} ms, CPU ${used.cpu.toFixed(0)} %`)
    const name = `${viewers}viewers`
    return {
      [`${name}.bareDelayP99`]: shown(found.p99, `ms, of a bare feed with ${BARE_EVERY_MS} ms between two writes`),
      [`${name}.bareCpu`]: shown(used.cpu, '% of a core, of the same'),
    }
  } finally {
    await feed.end()
  }
}

/** What a process has used. */
type Used = Pick<Awaited<ReturnType<typeof usage>>, 'cpu' | 'rss'>

/** Opens so many streams, and says what came of them in a while, and what the process that feeds them and another one have used. */
async function watched(
  at: Pick<Extract<ViewerQuestion, { ask: 'open' }>, 'url' | 'token' | 'path'>,
  viewers: number,
  { pid, beside }: { readonly pid: number; readonly beside: number },
): Promise<{ found: ReturnType<typeof summary>; used: Used; besides: Used }> {
  const helpers: Helper[] = []
  try {
    for (let left = viewers; left > 0; left -= SHARE) {
      const helper = new Helper('viewers')
      helpers.push(helper)
      await ask<null>(helper, { ask: 'open', ...at, count: Math.min(left, SHARE) })
    }
    await pause(SETTLE_MS)
    const besides = usage(beside, () => pause(WINDOW_MS))
    const used = await usage(pid, async () => {
      await Promise.all(helpers.map((helper) => ask<null>(helper, { ask: 'begin' })))
      await pause(WINDOW_MS)
      return Promise.all(helpers.map((helper) => ask<ViewersSeen>(helper, { ask: 'end' })))
    })
    return { found: summary(used.result), used, besides: await besides }
  } finally {
    for (const helper of helpers) await helper.end()
  }
}

function limited(value: number, limit: number | undefined, unit: string): Figure {
  return limit === undefined ? shown(value, unit) : under(value, limit, unit)
}

function ask<A>(helper: Helper, question: ViewerQuestion): Promise<A> {
  return helper.ask<A>(question)
}

function summary(parts: readonly ViewersSeen[]) {
  const counts = parts.reduce<number[]>((sum, { delays }) => delays.map((lines, ms) => lines + (sum[ms] ?? 0)), [])
  const sum = (of: (part: ViewersSeen) => number): number => parts.reduce((total, part) => total + of(part), 0)
  const counted = counts.reduce((total, lines) => total + lines, 0)
  const at = (share: number): number => {
    let left = counted * share
    return counts.findIndex((lines) => {
      left -= lines
      return left <= 0
    })
  }
  return {
    lines: sum((part) => part.lines),
    lost: sum((part) => part.lost),
    disordered: sum((part) => part.disordered),
    ended: sum((part) => part.ended),
    p50: at(0.5),
    p99: at(0.99),
    max: counts.findLastIndex((lines) => lines > 0),
  }
}
