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

/** A stage: so many lines per second to so many viewers, and what delays (ms) and the daemon's CPU (% of a core) must stay under. */
interface Stage {
  readonly viewers: number
  readonly linesPerSecond: number
  readonly p99?: number
  readonly latest?: number
  readonly cpu?: number
}

/** 1,000 lines per second of a real game to 50, 500 and 2,000 viewers. */
export const fanOut: Measurement = async (progress) => {
  const figures: Figures = {}
  for (const each of [
    { viewers: 50, p99: 30 },
    { viewers: 500, p99: 40, cpu: 15 },
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
  { viewers, linesPerSecond, p99, latest, cpu }: Stage,
  progress: (text: string) => void,
): Promise<Figures> {
  const panel = await BenchPanel.enter()
  const helpers: Helper[] = []
  try {
    await panel.startAgent()
    const serverId = await talkativeServer(panel, linesPerSecond)
    const open = { ask: 'open', url: panel.url, token: panel.token, path: streamPath(serverId) } as const
    for (let left = viewers; left > 0; left -= SHARE) {
      const helper = new Helper('viewers')
      helpers.push(helper)
      await ask<null>(helper, { ...open, count: Math.min(left, SHARE) })
    }
    await pause(SETTLE_MS)
    const agentUsed = usage(panel.agentPid, () => pause(WINDOW_MS))
    const used = await usage(panel.daemonPid, async () => {
      await Promise.all(helpers.map((helper) => ask<null>(helper, { ask: 'begin' })))
      await pause(WINDOW_MS)
      return Promise.all(helpers.map((helper) => ask<ViewersSeen>(helper, { ask: 'end' })))
    })
    const found = summary(used.result)
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
      [`${name}.agentCpu`]: shown((await agentUsed).cpu, '% of a core'),
    }
  } finally {
    for (const helper of helpers) await helper.end()
    await panel.leave()
  }
}

function limited(value: number, limit: number | undefined, unit: string): Figure {
  return limit === undefined ? shown(value, unit) : under(value, limit, unit)
}

function streamPath(serverId: string): string {
  return `/api/servers/${serverId}/console/stream?lines=0`
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
