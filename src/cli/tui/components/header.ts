import { FAST_RATE } from '../log/lines.ts'
import { type Facts, grouped, isStale, type LinkText, linkText } from '../model/facts.ts'
import type { Tone } from '../terminal/theme.ts'
import type { Field, FieldsProps } from './fields.tsx'

/** What the first row says. */
export interface HeaderFacts {
  readonly serverName: string
  readonly nodeName: string
  readonly address: string
  readonly contextName: string
  readonly facts: Facts
  readonly nowMs: number
  readonly width: number
  /** Its address, rate and number of the last line as well. */
  readonly wide: boolean
}

/** The first row: which server, in what state, where, and how the connection is. Dim where it may be out of date. */
export function headerFields(header: HeaderFacts): FieldsProps {
  const { serverName, nodeName, address, contextName, facts, nowMs, width, wide } = header
  const plain: Tone = isStale(facts) ? 'dim' : 'plain'
  const left: Field[] = [
    { text: serverName, tone: isStale(facts) ? 'dim' : 'title' },
    lifeField(facts, nowMs),
    { text: nodeName, tone: plain },
    ...playersField(facts, plain),
    ...(wide ? [{ text: address, tone: plain }] : []),
    { text: `ctx ${contextName}`, tone: 'dim' },
  ]
  const rate: Field = {
    text: `${grouped(facts.rate)} l/s`,
    tone: plain === 'plain' && facts.rate > FAST_RATE ? 'warn' : plain,
  }
  const more: Field[] = wide ? [rate, { text: `seq ${grouped(facts.seq)}`, tone: 'dim' }] : []
  return { left, right: [linkField(facts, nowMs), ...more], width }
}

/** How many play, where the game says it. */
function playersField({ stats }: Facts, tone: Tone): Field[] {
  if (stats === undefined || stats.playersOnline === null) return []
  const { playersOnline: online, playersMax: max } = stats
  return [{ text: `players ${grouped(online)}${max === null ? '' : `/${grouped(max)}`}`, tone }]
}

const TONES: Readonly<Record<LinkText['tone'], Tone>> = { good: 'good', warn: 'warn', bad: 'bad' }

/** How the connection is. */
export function linkField(facts: Facts, nowMs: number): Field {
  const { text, tone } = linkText(facts, nowMs)
  return { text, tone: TONES[tone] }
}

/** The state of the server, and for how long it has run. */
export function lifeField(facts: Facts, nowMs: number): Field {
  const { status, runningSinceMs } = facts
  if (status === undefined) return { text: '-', tone: 'dim' }
  const up = runningSinceMs === undefined ? '' : ` ${uptime(nowMs - runningSinceMs)}`
  const tone = status === 'running' ? 'good' : status === 'crashed' || status === 'error' ? 'bad' : 'warn'
  return { text: `${status.toUpperCase()}${up}`, tone: isStale(facts) ? 'dim' : tone }
}

/** A duration as `3d04h`, `4h12m`, `5m07s`, `9s`. */
function uptime(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const two = (n: number): string => String(n).padStart(2, '0')
  if (seconds >= 86_400) return `${Math.floor(seconds / 86_400)}d${two(Math.floor((seconds % 86_400) / 3600))}h`
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)}h${two(Math.floor((seconds % 3600) / 60))}m`
  return seconds >= 60 ? `${Math.floor(seconds / 60)}m${two(seconds % 60)}s` : `${seconds}s`
}
