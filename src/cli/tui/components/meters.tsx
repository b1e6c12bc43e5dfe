import { Box } from 'ink'
import type { ReactElement } from 'react'
import type { ResourceStats } from '../../../shared/kernel/events.ts'
import { cpuShare, diskShare, type Facts, isStale, memoryShare } from '../model/facts.ts'
import type { Tone } from '../terminal/theme.ts'
import { Label } from './label.tsx'

export interface MetersProps extends Pick<Facts, 'stats' | 'recent'> {
  /** Whether nothing comes from the server now. */
  readonly stale: boolean
  readonly width: number
}

/** What the meters show of the facts. */
export function metered(facts: Facts): Omit<MetersProps, 'width'> {
  return { stats: facts.stats, recent: facts.recent, stale: isStale(facts) }
}

/** What the server uses: bars for CPU, memory and disk, and how CPU and memory went lately. Dim while nothing comes from it. */
export function Meters({ stats, recent, stale, width }: MetersProps): ReactElement {
  const bar = width >= 140 ? 16 : width >= 100 ? 10 : 5
  const spark = width >= 100 ? (width >= 140 ? 24 : 12) : 0
  return (
    <Box width={width} height={1} paddingX={1} gap={3} overflow="hidden">
      <Meter
        name="CPU"
        share={stats && cpuShare(stats)}
        text={cpuText(stats)}
        {...{ bar, stale, spark }}
        recent={recent.cpu}
      />
      <Meter
        name="MEM"
        share={stats && memoryShare(stats)}
        text={memoryText(stats)}
        {...{ bar, stale, spark }}
        recent={recent.memory}
      />
      <Meter name="DISK" share={stats && diskShare(stats)} text={diskText(stats)} {...{ bar, stale }} />
    </Box>
  )
}

export interface MeterProps {
  readonly name: string
  /** 0 to 1, and above where there is more than there should be; `undefined` when it is not known. */
  readonly share: number | undefined
  /** The value in words. */
  readonly text: string
  /** How many columns the bar has. */
  readonly bar: number
  readonly stale?: boolean
  /** The last shares, oldest first, drawn in at most `spark` columns. */
  readonly recent?: readonly number[]
  readonly spark?: number
}

/** A name, a bar, a value, and how the value went. */
export function Meter({ name, share, text, bar, stale = false, recent = [], spark = 0 }: MeterProps): ReactElement {
  const { full, rest } = barText(share ?? 0, bar)
  const fill: Tone = stale ? 'dim' : fillTone(share)
  const history = sparkline(recent.slice(-spark))
  return (
    <Box gap={1} flexShrink={0}>
      <Label text={name} tone="dim" />
      <Box flexShrink={0}>
        {full !== '' && <Label text={full} tone={fill} />}
        {rest !== '' && <Label text={rest} tone="rest" />}
      </Box>
      <Label text={text} tone={stale ? 'dim' : share !== undefined && share >= BAD ? 'bad' : 'plain'} />
      {spark > 0 && history !== '' && <Label text={history} tone={fill} />}
    </Box>
  )
}

const WARN = 0.75
const BAD = 0.9

function fillTone(share: number | undefined): Tone {
  if (share === undefined || share < WARN) return 'fill'
  return share < BAD ? 'warn' : 'bad'
}

const EIGHTHS = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']

/** A bar of `width` columns: its filled part by eighths of a column, and the rest. */
export function barText(share: number, width: number): { readonly full: string; readonly rest: string } {
  const eighths = Math.round(Math.min(1, Math.max(0, share)) * width * 8)
  const full = '█'.repeat(Math.floor(eighths / 8)) + (EIGHTHS[eighths % 8] ?? '')
  return { full, rest: '·'.repeat(width - full.length) }
}

const LEVELS = '▁▂▃▄▅▆▇█'

/** One column for each share. */
export function sparkline(shares: readonly number[]): string {
  return shares
    .map((share) => LEVELS[Math.min(LEVELS.length - 1, Math.floor(Math.max(0, share) * LEVELS.length))] ?? '')
    .join('')
}

function cpuText(stats: ResourceStats | undefined): string {
  return stats === undefined || stats.cpuPercent === null ? '-' : `${Math.round(stats.cpuPercent)}%`
}

/** Used of all, both in the unit that fits the whole. */
function memoryText(stats: ResourceStats | undefined): string {
  if (stats === undefined || stats.memoryUsageMb === null) return '-'
  const { memoryUsageMb: used, memoryTotalMb: total } = stats
  if (total <= 0) return `${Math.round(used)}M`
  if (total < 1024) return `${Math.round(used)}/${total}M`
  return `${(used / 1024).toFixed(1)}/${(total / 1024).toFixed(1)}G`
}

function diskText(stats: ResourceStats | undefined): string {
  const share = stats && diskShare(stats)
  return share === undefined ? '-' : `${Math.round(share * 100)}%`
}
