import type { Paint } from './colour.ts'
import { oneLine } from './escape.ts'
import type { Cell } from './view.ts'

/** How cells become text for people. */
export interface CellStyle {
  /** Asked for each cell: a command that waits begins long before it writes. */
  readonly nowMs: () => number
  /** Times as ISO-8601 instead of "5m ago". */
  readonly utc: boolean
  readonly paint: Paint
}

/** A cell for a table: safe for a terminal, `-` for nothing. */
export function humanCell(cell: Cell, style: CellStyle): string {
  if (cell === null || cell === undefined || cell === '') return '-'
  if (typeof cell === 'boolean') return cell ? 'yes' : 'no'
  if (typeof cell === 'number') return String(cell)
  if (typeof cell === 'string') return oneLine(cell)
  if ('mib' in cell) return cell.mib === null ? '-' : humanMib(cell.mib)
  if ('status' in cell) return style.paint.status(oneLine(cell.status))
  if (cell.time === null) return '-'
  return style.utc ? cell.time : relativeTime(cell.time, style.nowMs())
}

/** A cell for CSV: raw numbers and ISO times, empty for nothing. */
export function rawCell(cell: Cell): string {
  if (cell === null || cell === undefined) return ''
  if (typeof cell !== 'object') return String(cell)
  if ('mib' in cell) return cell.mib === null ? '' : String(cell.mib)
  return 'status' in cell ? cell.status : (cell.time ?? '')
}

/** `12s ago`, `5m ago`, `3h ago`, `9d ago`, `in 4m`; what is no time is shown as it is. */
export function relativeTime(iso: string, nowMs: number): string {
  const at = Date.parse(iso)
  if (Number.isNaN(at)) return oneLine(iso)
  const seconds = Math.round(Math.abs(nowMs - at) / 1000)
  const text = shortDuration(seconds * 1000)
  // A server's clock or an answer that took its time may be a moment ahead.
  if (seconds < 1 || (at > nowMs && seconds < 2)) return 'now'
  return at > nowMs ? `in ${text}` : `${text} ago`
}

/** The largest unit of a duration: `45s`, `12m`, `7h`, `30d`. */
export function shortDuration(ms: number): string {
  const seconds = Math.floor(ms / 1000)
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

/** MiB with the unit that fits: `512 MiB`, `1.5 GiB`. */
export function humanMib(mib: number): string {
  if (mib < 1024) return `${trim(mib)} MiB`
  return mib < 1024 * 1024 ? `${trim(mib / 1024)} GiB` : `${trim(mib / 1024 / 1024)} TiB`
}

function trim(value: number): string {
  return String(Math.round(value * 10) / 10)
}
