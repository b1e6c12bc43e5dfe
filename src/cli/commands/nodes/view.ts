import type { Node } from '../../../shared/api/nodes.ts'
import { column, view, wide } from '../../kit/output/view.ts'

/** The columns of a node. */
export const NODE_COLUMNS = [
  column<Node>('NAME', (row) => row.name),
  column<Node>('STATUS', (row) => ({ status: row.status })),
  column<Node>('LOCATION', (row) => row.location.name),
  column<Node>('ADDRESS', (row) => row.publicAddress),
  column<Node>('SERVERS', (row) => row.serverCount),
  column<Node>('MEMORY', (row) => ({ mib: row.maxMemoryMb })),
  column<Node>('CPU', (row) => row.maxCpuCores),
  column<Node>('SEEN', (row) => ({ time: row.lastSeenAt })),
  column<Node>('ID', (row) => row.id),
  wide<Node>('AGENT', (row) => row.agentVersion),
  wide<Node>('SYSTEM', (row) => (row.os === null ? null : `${row.os}/${row.arch ?? '?'}`)),
  wide<Node>('ADDRESSES', (row) => row.addresses.join(', ')),
  wide<Node>('PORTS', (row) => rangesText(row.portRanges)),
  wide<Node>('RUNTIMES', (row) => row.runtimes.map(({ name }) => name).join(',')),
  wide<Node>('ISOLATION', (row) => row.runtimes.map(isolationOf).join('; ')),
]

/** From which ports its servers get theirs. */
function rangesText(ranges: Node['portRanges']): string | null {
  if (ranges.length === 0) return null
  return ranges.map(({ from, to }) => (from === to ? String(from) : `${from}-${to}`)).join(',')
}

/** How a runtime keeps servers apart, or why it cannot be used. */
function isolationOf({ name, ok, reason, isolation, mounts, limits, disk }: Node['runtimes'][number]): string {
  if (!ok) return `${name}: ${reason ?? 'not available'}`
  return `${name}: isolation ${isolation ?? 'unknown'}, mounts ${mounts ?? 'unknown'}, limits ${limits ?? 'unknown'}, disk ${disk ?? 'unknown'}`
}

/** How nodes are shown. */
export const NODE_VIEW = view<Node>(NODE_COLUMNS)
