import type { ListedServer, Server } from '../../../shared/api/servers.ts'
import { column, view, wide } from '../../kit/output/view.ts'

/** An address with its port, as people write it. */
export function addressText(host: string, port: number): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

/** The further ports of a server by name: `query=25566 rcon=25575`. */
export function portsText({ ports }: Pick<Server, 'ports'>): string | null {
  const further = ports.filter(({ isPrimary }) => !isPrimary)
  return further.length === 0 ? null : further.map(({ name, port }) => `${name}=${port}`).join(' ')
}

/** Where players find a server, with its further ports: `games.example.org:25565 query=25566`. */
export function placeText({ connection, ports }: Pick<Server, 'connection' | 'ports'>): string {
  return [addressText(connection.host, connection.port), portsText({ ports }) ?? []].flat().join(' ')
}

function mountText({ source, target, readOnly }: NonNullable<Server['mounts']>[number]): string {
  return `${source}:${target}${readOnly ? ':ro' : ''}`
}

/** `3/20`, `3` where the game does not say how many may play, `null` where it says nothing. */
export function playersText(row: Pick<Partial<Server>, 'playersOnline' | 'playersMax'>): string | null {
  // Daemons of before the fields leave them out.
  const { playersOnline: online = null, playersMax: max = null } = row
  return online === null ? null : max === null ? String(online) : `${online}/${max}`
}

/** How servers are shown. */
export const SERVER_VIEW = view<ListedServer>([
  column('NAME', (row) => row.name),
  column('STATUS', (row) => ({ status: row.status })),
  column('NODE', (row) => row.node.name),
  column('ADDRESS', (row) => addressText(row.connection.host, row.connection.port)),
  column('CPU', (row) => (row.cpuPercent === null ? null : `${Math.round(row.cpuPercent)} %`)),
  column('MEMORY', (row) => ({ mib: row.memoryUsageMb })),
  column('PLAYERS', (row) => playersText(row)),
  column('STARTED', (row) => ({ time: row.startedAt })),
  column('ID', (row) => row.id),
  wide('TEMPLATE', (row) => row.template.name),
  wide('PORTS', portsText),
  wide('STARTUP', (row) => (typeof row.startupCommand === 'string' ? 'its own' : row.startupName)),
  wide('PINNED', (row) => ({ time: row.pinnedAt ?? null })),
  wide('TEMPLATE CHANGED', (row) => (typeof row.pinnedAt === 'string' ? (row.templateChanged ? 'yes' : 'no') : null)),
  wide('NETWORK', (row) => row.networkMode),
  wide('LOCATION', (row) => row.location.name),
  wide('DESIRED', (row) => row.desired),
  wide('REASON', (row) => row.reason),
  wide('MAX MEMORY', (row) => ({ mib: row.allocatedMemoryMb })),
  wide('MAX CPU', (row) => row.allocatedCpuCores),
  wide('CPU SET', (row) => row.cpuSet),
  wide('I/O WEIGHT', (row) => row.ioWeight),
  wide('IMAGE', (row) => row.image),
  wide('MAX DISK', (row) => ({ mib: row.allocatedDiskMb })),
  wide('DISK', (row) => ({ mib: row.diskUsageMb })),
  wide('DISK LIMIT BY', (row) => row.diskEnforced),
  wide('MOUNTS', (row) => row.mounts?.map(mountText).join(', ')),
  wide('PID', (row) => row.pid),
  wide('CRASHES', (row) => row.crashCount),
  wide('EXIT', (row) => row.lastExitSignal ?? row.lastExitCode),
  wide('CAUSE', (row) => row.lastExitCause),
  wide('BOOT', (row) => row.bootPolicy),
  wide('BOOT ORDER', (row) => row.startOrder),
  wide('STOP TIME', (row) => row.stopTimeoutSeconds),
  wide('TIME ZONE', (row) => row.timeZone),
  wide('EULA', (row) => row.eula?.state),
  wide('OBSERVED', (row) => ({ time: row.observedAt })),
  wide('CREATED', (row) => ({ time: row.createdAt })),
])
