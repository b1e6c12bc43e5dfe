import type { ResourceStats } from '../../shared/kernel/events.ts'
import { type Piece, ruleRow } from './bars.ts'
import { grouped, type LinkText, linkText } from './facts.ts'
import type { Layout } from './layout.ts'
import { INK } from './line-rows.ts'
import type { ConsoleState } from './model.ts'

/** What the bars say beside the state. */
export interface BarFacts {
  readonly nodeName: string
  readonly contextName: string
  readonly nowMs: number
  /** The place after the newest line. */
  readonly end: number
  /** Which match of how many stands in the view, and whether lines are still being searched. */
  readonly match: { readonly index: number; readonly count: number; readonly searching: boolean } | undefined
  readonly sampling: boolean
}

/** Above this many lines per second the rate turns yellow and lines are not coloured. */
export const FAST_RATE = 300

/** The first row: who, in what state, where, and how the connection is. */
export function headerRow(state: ConsoleState, layout: Layout, bar: BarFacts): string {
  const link = linkText(state.facts, bar.nowMs)
  const left = [{ text: state.serverName, style: INK.bold }, lifePiece(state, bar.nowMs)]
  if (layout.kind === 'narrow') {
    // The only row for everything: what needs to be read first stands first.
    const paused = state.follow ? undefined : pausedPiece(state, bar)
    const first = messagePiece(state, bar) ?? viewPiece(state, bar) ?? paused
    const shown = first === undefined ? [...narrowedPieces(state), ...left] : [first]
    return ruleRow({ start: '', left: shown, right: [linkPiece(link)], end: '', width: layout.columns, fill: ' ' })
  }
  left.push({ text: bar.nodeName }, { text: `ctx ${bar.contextName}` })
  const { facts } = state
  const rate = { text: `${grouped(facts.rate)} l/s`, style: facts.rate > FAST_RATE ? INK.yellow : '' }
  const extra = layout.kind === 'wide' ? [rate, { text: `seq ${grouped(facts.seq)}` }] : []
  return ruleRow({ start: '┌', left, right: [linkPiece(link), ...extra], end: '┐', width: layout.columns, fill: '─' })
}

/** The row under the log: figures, or that the view is paused. */
export function statsRow(state: ConsoleState, layout: Layout, bar: BarFacts): string {
  const left = state.follow ? statsPieces(state.facts.stats) : [pausedPiece(state, bar)]
  return ruleRow({ start: '├', left, right: [], end: '┤', width: layout.columns, fill: '─' })
}

/** The row over the prompt: a message, or what the view is set to. */
export function settingsRow(state: ConsoleState, layout: Layout, bar: BarFacts): string {
  const told = messagePiece(state, bar)
  const view = viewPiece(state, bar)
  const settings: Piece[] = [
    ...(view === undefined ? [] : [view]),
    ...narrowedPieces(state),
    { text: `wrap ${state.wrap ? 'on' : 'off'}` },
    { text: `ts ${state.time}` },
    { text: `follow ${state.follow ? 'ON' : 'off'}` },
  ]
  const right = layout.kind === 'wide' ? [{ text: `history ${state.history.length}/500`, style: INK.dim }] : []
  return ruleRow({
    start: '│',
    left: told === undefined ? settings : [told],
    right,
    end: '│',
    width: layout.columns,
    fill: ' ',
  })
}

/** The last row: the keys that are worth most now. */
export function hintRow(state: ConsoleState, layout: Layout): string {
  const log = [
    'i type',
    '/ search',
    '& filter',
    'f follow',
    'l level',
    't time',
    'w wrap',
    'v copy',
    'p power',
    'e export',
    'q detach',
    '? help',
  ]
  const input = [
    '^] detach',
    'Esc log keys',
    'PgUp scroll',
    '↑ history',
    'Tab complete',
    'F5 power',
    'F6 export',
    'F1 help',
  ]
  const keys = state.focus === 'log' ? log : input
  const left = keys.map((text) => ({ text, style: INK.dim }))
  return ruleRow({ start: '└', left, right: [], end: '┘', width: layout.columns, fill: ' ' })
}

const TONES: Readonly<Record<LinkText['tone'], string>> = { good: INK.green, warn: INK.yellow, bad: INK.red }

function linkPiece(link: LinkText): Piece {
  return { text: link.text, style: TONES[link.tone] }
}

function lifePiece(state: ConsoleState, nowMs: number): Piece {
  const { status, runningSinceMs } = state.facts
  if (status === undefined) return { text: '-' }
  const up = runningSinceMs === undefined ? '' : ` ${uptime(nowMs - runningSinceMs)}`
  const style = status === 'running' ? INK.green : status === 'crashed' || status === 'error' ? INK.red : INK.yellow
  return { text: `${status.toUpperCase()}${up}`, style }
}

/** A duration as `3d04h`, `4h12m`, `5m07s`, `9s`. */
export function uptime(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const two = (n: number): string => String(n).padStart(2, '0')
  if (seconds >= 86_400) return `${Math.floor(seconds / 86_400)}d${two(Math.floor((seconds % 86_400) / 3600))}h`
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)}h${two(Math.floor((seconds % 3600) / 60))}m`
  return seconds >= 60 ? `${Math.floor(seconds / 60)}m${two(seconds % 60)}s` : `${seconds}s`
}

function pausedPiece(state: ConsoleState, bar: BarFacts): Piece {
  const added = Math.max(0, bar.end - state.pausedEnd)
  return { text: `PAUSED · ${grouped(added)} new lines below · G or f to follow`, style: INK.yellow }
}

/** The one thing that most needs to be read: a notice, or a command on its way. */
function messagePiece(state: ConsoleState, bar: BarFacts): Piece | undefined {
  const { notice } = state
  if (notice !== undefined && notice.untilMs > bar.nowMs) return { text: notice.text, style: INK.yellow }
  const send = state.sends.at(-1)
  if (send !== undefined) {
    const more = state.queued > 0 ? ` (${state.queued} more)` : ''
    if (send.state === 'failed') return { text: `✗ ${send.code ?? ''} ${send.text}`, style: INK.red }
    if (send.state === 'pending') return { text: `» ${send.text}${more}`, style: INK.cyan }
    return { text: `✓ ${send.text}${more}`, style: INK.green }
  }
  return undefined
}

/** How the view was come to: by a search, or as a sample of more than can be read. */
function viewPiece(state: ConsoleState, bar: BarFacts): Piece | undefined {
  if (bar.match !== undefined) {
    const { index, count, searching } = bar.match
    const place = index < 0 ? `${grouped(count)} matches` : `match ${grouped(index + 1)}/${grouped(count)}`
    return { text: `/${state.search?.pattern ?? ''}/ ${place}${searching ? ' …' : ''}` }
  }
  if (bar.sampling)
    return {
      text: `SAMPLE of ${grouped(state.facts.rate)} l/s: the newest screenful; all lines are kept`,
      style: INK.yellow,
    }
  return undefined
}

/** Which lines alone are shown. */
function narrowedPieces({ filter, level }: ConsoleState): Piece[] {
  const pieces: Piece[] = []
  if (filter !== undefined)
    pieces.push({ text: `filter: ${filter.inverse ? '!' : ''}/${filter.pattern}/`, style: INK.yellow })
  if (level !== 'all') pieces.push({ text: `level ${level.toUpperCase()}`, style: INK.yellow })
  return pieces
}

function statsPieces(stats: ResourceStats | undefined): Piece[] {
  if (stats === undefined) return [{ text: 'CPU -' }, { text: 'MEM -' }, { text: 'disk -' }]
  const memory = stats.memoryUsageMb === null ? '-' : memoryText(stats.memoryUsageMb, stats.memoryTotalMb)
  const disk =
    stats.diskUsageMb === null || stats.diskTotalMb === 0
      ? '-'
      : `${Math.round((stats.diskUsageMb / stats.diskTotalMb) * 100)}%`
  return [
    { text: `CPU ${stats.cpuPercent === null ? '-' : `${Math.round(stats.cpuPercent)}%`}` },
    { text: `MEM ${memory}` },
    { text: `disk ${disk}` },
    ...(stats.processes === null ? [] : [{ text: `processes ${stats.processes}` }]),
  ]
}

/** Used of all, both in the unit that fits the whole. */
function memoryText(usedMib: number, totalMib: number): string {
  if (totalMib < 1024) return `${Math.round(usedMib)}/${totalMib}M`
  return `${(usedMib / 1024).toFixed(1)}/${(totalMib / 1024).toFixed(1)}G`
}
