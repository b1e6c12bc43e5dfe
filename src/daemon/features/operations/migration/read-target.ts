import { z } from 'zod'
import { RuntimeReport } from '../../../../shared/protocol/node.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { effectiveMaximum } from '../../fleet/nodes/capacity.ts'
import { nodeUsage, roundedCores } from '../../fleet/nodes/rows.ts'
import { listMapped } from './map.ts'
import { contentHash } from './plan/content-hash.ts'
import type { Brought, TargetNodeState, TargetState } from './plan/state.ts'

/** Reads what this panel has, as far as a plan for this source and these nodes looks at it. */
export async function readTarget(
  q: Queries,
  {
    sourceFp,
    nodeIds,
    isAgentTooOld,
  }: {
    readonly sourceFp: string
    readonly nodeIds: readonly string[]
    readonly isAgentTooOld: (nodeId: string) => boolean
  },
): Promise<TargetState> {
  const locations = await q.selectFrom('location').select(['id', 'name']).execute()
  const nests = await q.selectFrom('nest').select(['id', 'name']).execute()
  const templates = await q
    .selectFrom('template')
    .leftJoin('templateEgg', 'templateEgg.templateId', 'template.id')
    .select(['template.id', 'template.name', 'templateEgg.document'])
    .execute()
  const users = await q.selectFrom('user').select(['id', 'email', 'username', 'passwordHash']).execute()
  const servers = await q.selectFrom('server').select(['id', 'uuid', 'name']).execute()
  const hosts = await q.selectFrom('databaseHost').select(['id', 'host', 'port', 'engine']).execute()
  return {
    nodes: await nodesOf(q, nodeIds, isAgentTooOld),
    locations: new Map(locations.map(({ id, name }) => [name, id])),
    nests: new Map(nests.map(({ id, name }) => [name, id])),
    templates: new Map(templates.map(({ id, name, document }) => [name, { id, origin: originOf(document) }])),
    users: new Map(users.map(({ id, email, username }) => [email.toLowerCase(), { id, username }])),
    withoutPassword: new Set(users.flatMap(({ id, passwordHash }) => (passwordHash === null ? [id] : []))),
    usernames: new Map(users.map(({ username, id }) => [username.toLowerCase(), id])),
    servers: new Map(servers.map(({ id, uuid, name }) => [uuid, { id, name }])),
    databaseHosts: new Map(hosts.map(({ id, host, port }) => [`${host} ${port}`.toLowerCase(), id])),
    takesDatabases: hosts.some(({ engine }) => engine === 'mysql'),
    brought: await broughtOf(q, sourceFp),
  }
}

function originOf(document: string | null): string | null {
  return document === null ? null : contentHash(parseJson(z.unknown(), document))
}

async function nodesOf(
  q: Queries,
  ids: readonly string[],
  isAgentTooOld: (nodeId: string) => boolean,
): Promise<Map<string, TargetNodeState>> {
  if (ids.length === 0) return new Map()
  const rows = await q
    .selectFrom('node')
    .selectAll()
    .where('id', 'in', [...ids])
    .execute()
  const usage = await nodeUsage(q, ids)
  const ports = await q
    .selectFrom('allocation')
    .select(['nodeId', 'ip', 'port'])
    .where('nodeId', 'in', [...ids])
    .where('serverId', 'is not', null)
    .execute()
  const states = rows.map((row): [string, TargetNodeState] => {
    const { id, name, locationId, defaultIp, maxCpuCores } = row
    const { memoryMb, cpuCores } = effectiveMaximum(row)
    const taken = ports.flatMap(({ nodeId, ip, port }) => (nodeId === id ? [`${ip} ${port}`] : []))
    const freeMemoryMb = memoryMb === null ? null : Math.max(0, memoryMb - usage(id).memoryMb)
    const freeCpuCores = cpuCores === null ? null : Math.max(0, roundedCores(cpuCores - usage(id).cpuCores))
    const runtimes = parseJson(RuntimeReport.array(), row.runtimes).flatMap((one) => (one.ok ? [one.name] : []))
    const about = { id, name, locationId, defaultIp, maxCpuCores, isAgentTooOld: isAgentTooOld(id) }
    return [id, { ...about, runtimes, freeMemoryMb, freeCpuCores, takenPorts: new Set(taken) }]
  })
  return new Map(states)
}

async function broughtOf(q: Queries, sourceFp: string): Promise<Map<string, Brought>> {
  const rows = await listMapped(q, sourceFp)
  const idsOf = async (
    table: 'location' | 'nest' | 'template' | 'user' | 'server' | 'serverDatabase' | 'schedule' | 'backup',
  ) => new Set((await q.selectFrom(table).select('id').execute()).map(({ id }) => id))
  const grants = await q.selectFrom('serverAccess').select(['serverId', 'userId']).execute()
  const there: Readonly<Record<string, ReadonlySet<string>>> = {
    location: await idsOf('location'),
    nest: await idsOf('nest'),
    template: await idsOf('template'),
    user: await idsOf('user'),
    server: await idsOf('server'),
    database: await idsOf('serverDatabase'),
    database_copy: await idsOf('serverDatabase'),
    schedule: await idsOf('schedule'),
    backup: await idsOf('backup'),
    files: await idsOf('server'),
    mount: await idsOf('server'),
    access: new Set(grants.map(({ serverId, userId }) => `${serverId}/${userId}`)),
  }
  return new Map(
    rows.map(({ sourceType, sourceId, targetType, targetId, contentHash: hash, created }) => [
      `${sourceType} ${sourceId}`,
      {
        targetId,
        contentHash: hash,
        isThere: there[targetType]?.has(targetId.split(' ')[0] ?? '') ?? false,
        created: created === 1,
      },
    ]),
  )
}
