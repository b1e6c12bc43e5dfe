import type { Server } from '../../../shared/api/servers.ts'
import { column, view, wide } from '../../kit/output/view.ts'

/** `3/20`, `3` where the game does not say how many may play, `null` where it says nothing. */
export function playersText(row: Pick<Partial<Server>, 'playersOnline' | 'playersMax'>): string | null {
  // Daemons of before the fields leave them out.
  const { playersOnline: online = null, playersMax: max = null } = row
  return online === null ? null : max === null ? String(online) : `${online}/${max}`
}

/** How servers are shown. */
export const SERVER_VIEW = view<Server>([
  column('NAME', (row) => row.name),
  column('STATUS', (row) => ({ status: row.status })),
  column('NODE', (row) => row.node.name),
  column('ADDRESS', (row) => `${row.connection.host}:${row.connection.port}`),
  column('CPU', (row) => (row.cpuPercent === null ? null : `${Math.round(row.cpuPercent)} %`)),
  column('MEMORY', (row) => ({ mib: row.memoryUsageMb })),
  column('PLAYERS', (row) => playersText(row)),
  column('STARTED', (row) => ({ time: row.startedAt })),
  column('ID', (row) => row.id),
  wide('TEMPLATE', (row) => row.template.name),
  wide('NETWORK', (row) => row.networkMode),
  wide('LOCATION', (row) => row.location.name),
  wide('DESIRED', (row) => row.desired),
  wide('REASON', (row) => row.reason),
  wide('MAX MEMORY', (row) => ({ mib: row.allocatedMemoryMb })),
  wide('MAX CPU', (row) => row.allocatedCpuCores),
  wide('MAX DISK', (row) => ({ mib: row.allocatedDiskMb })),
  wide('DISK', (row) => ({ mib: row.diskUsageMb })),
  wide('PID', (row) => row.pid),
  wide('CRASHES', (row) => row.crashCount),
  wide('EXIT', (row) => row.lastExitSignal ?? row.lastExitCode),
  wide('CAUSE', (row) => row.lastExitCause),
  wide('OBSERVED', (row) => ({ time: row.observedAt })),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])
