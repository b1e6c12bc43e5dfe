import { SCHEDULE_LIMITS } from '../../../../../shared/kernel/schedule.ts'
import type { NewItem, Op } from './draft.ts'
import { planFiles } from './files.ts'
import { mappedPermissions } from './permissions.ts'
import type { Planning, ServerInScope } from './scope.ts'
import { subusersOf, userOf } from './users.ts'

type Part = Pick<NewItem, 'phase' | 'action' | 'type' | 'id' | 'name' | 'needs' | 'bytes'>

/** How one thing of a server comes, where that is not for the run before to say. */
interface Chosen {
  readonly op?: Op
  readonly reason?: string
  readonly input?: Readonly<Record<string, unknown>>
}

/** What belongs to a server goes with it, before the next server begins. */
export function planBelongings(planning: Planning, scoped: ServerInScope): void {
  const { draft } = planning
  const { server } = scoped
  planSubusers(planning, scoped)
  planMounts(planning, scoped)
  planDatabases(planning, scoped)
  planSchedules(planning, scoped)
  planFiles(planning, scoped, (frozen) => planDatabaseCopies(planning, scoped, frozen))
  planBackups(planning, scoped)
  draft.add({
    phase: 'finish',
    action: 'activate_server',
    type: 'server',
    id: server.id,
    name: server.name,
    target: { type: 'server', id: null, name: server.name },
    op: 'update',
    needs: [draft.bringing(`server ${server.id}`), draft.bringing(`files ${server.id}`)],
    input: { serverSourceId: server.id, isSuspended: server.isSuspended },
  })
}

/** One thing of a server: it comes, or is as it was brought before, unless `chosen` says otherwise. */
function planPart(
  { phases, draft }: Planning,
  { server }: ServerInScope,
  { item, source, chosen = {} }: { readonly item: Part; readonly source: object; readonly chosen?: Chosen },
): void {
  if (!phases.has(item.phase)) return
  const again = draft.again(item.type, item.id, source)
  const op = chosen.op ?? again?.op ?? 'create'
  draft.add({
    ...item,
    target: { type: item.type, id: again?.targetId ?? null, name: item.name },
    op,
    reason: chosen.reason ?? again?.reason,
    needs: [draft.bringing(`server ${server.id}`), ...(item.needs ?? [])],
    input: { serverSourceId: server.id, ...chosen.input, source, op },
  })
}

function skipped(reason: string): Chosen {
  return { op: 'skip', reason }
}

function planSubusers(planning: Planning, scoped: ServerInScope): void {
  const { draft } = planning
  const { server } = scoped
  for (const one of subusersOf(planning, server)) {
    const user = userOf(planning, one)
    const { permissions, unmapped } = mappedPermissions(one.permissions)
    const id = `${server.id}/${user?.id ?? one.userUuid ?? one.email ?? '?'}`
    const name = `${user?.email ?? id} on ${server.name}`
    const item = { phase: 'subusers', action: 'import_subuser', type: 'subuser', id, name } as const
    const source = { userSourceId: user?.id ?? null, permissions, unmapped }
    if (unmapped.length > 0) draft.warn(`${name}: no counterpart for ${unmapped.join(', ')}`)
    if (user === undefined) planPart(planning, scoped, { item, source, chosen: skipped('user_missing') })
    else planPart(planning, scoped, { item: { ...item, needs: [draft.bringing(`user ${user.id}`)] }, source })
  }
}

function planMounts(planning: Planning, scoped: ServerInScope): void {
  const { source, request } = planning
  const { server } = scoped
  const chosen = request.options.mounts === 'list' ? skipped('listed') : {}
  for (const one of source.mounts) {
    if (!one.serverIds.includes(server.id)) continue
    const [id, name] = [`${server.id}/${one.id}`, `${one.name} on ${server.name}`]
    const item = { phase: 'servers', action: 'import_mount', type: 'mount', id, name } as const
    planPart(planning, scoped, { item, source: one, chosen })
  }
}

function planDatabases(planning: Planning, scoped: ServerInScope): void {
  const { source, target, request } = planning
  const { server } = scoped
  for (const one of source.perServer.get(server.id)?.databases ?? []) {
    const { id, name, host } = one
    const item = {
      phase: 'databases',
      action: 'import_database',
      type: 'database',
      id: `${server.id}/${id}`,
      name,
    } as const
    const isKnown = host !== null && target.databaseHosts.has(`${host.host} ${host.port}`.toLowerCase())
    const policy = request.options.conflicts.database
    const reason =
      policy === 'skip'
        ? 'policy'
        : host === null
          ? 'host_hidden'
          : isKnown || policy === 'copy'
            ? undefined
            : 'host_missing'
    planPart(planning, scoped, {
      item,
      source: one,
      chosen: reason === undefined ? { input: { copies: policy === 'copy' } } : skipped(reason),
    })
  }
}

/** What copied databases hold, while the server is held still. Answers the steps that are over before it goes on. */
function planDatabaseCopies(
  { source, target, request, phases, draft }: Planning,
  { server }: ServerInScope,
  frozen: string | undefined,
): readonly string[] {
  if (request.options.conflicts.database !== 'copy' || !phases.has('databases')) return []
  const held = (source.perServer.get(server.id)?.databases ?? []).filter(({ host }) => host !== null)
  if (held.length > 0 && !target.takesDatabases) {
    const place = { type: 'server', id: server.id, name: server.name }
    const text = 'This panel has no database host for MySQL that its databases could be copied to; add one'
    draft.conflict('DATABASE_HOST_MISSING', place, text, {
      policy: 'conflicts.database',
      policyOptions: ['record', 'skip'],
    })
  }
  return held.map((one) => {
    const id = `${server.id}/${one.id}`
    return draft.add({
      ...{ phase: 'databases', action: 'copy_database', type: 'database_content', id, name: one.name },
      target: { type: 'database', id: null, name: one.name },
      op: 'update',
      needs: [draft.bringing(`database ${id}`)],
      follows: [frozen],
      input: { serverSourceId: server.id, source: one },
    })
  })
}

/** As many as a server may have here, those that were brought before among them. */
function planSchedules(planning: Planning, scoped: ServerInScope): void {
  const { source, draft } = planning
  const { server } = scoped
  const schedules = (source.perServer.get(server.id)?.schedules ?? []).map((one) => {
    const id = `${server.id}/${one.id}`
    return { one, id, isThere: draft.again('schedule', id, one) !== undefined }
  })
  const limit = SCHEDULE_LIMITS.perServer
  let room = limit - schedules.filter(({ isThere }) => isThere).length
  for (const { one, id, isThere } of schedules) {
    const item = { phase: 'schedules', action: 'import_schedule', type: 'schedule', id, name: one.name } as const
    const fits = isThere || room > 0
    if (!isThere) room -= 1
    planPart(planning, scoped, { item, source: one, chosen: fits ? {} : skipped('too_many_schedules') })
  }
  if (room < 0)
    draft.warn(`server ${server.name}: a server has ${limit} schedules at most here, ${-room} of its are left out`)
}

function planBackups(planning: Planning, scoped: ServerInScope): void {
  const { source, request, draft } = planning
  const { server } = scoped
  for (const one of source.perServer.get(server.id)?.backups ?? []) {
    const { uuid: id, name, state } = one
    const item = { phase: 'backups', action: 'import_backup', type: 'backup', id, name } as const
    const isListed = request.options.backups === 'list'
    if (state !== 'good' || isListed) {
      const reason = state === 'failed' ? 'backup_failed' : state === 'good' ? 'listed' : 'backup_pending'
      planPart(planning, scoped, { item, source: one, chosen: skipped(reason) })
      continue
    }
    const nodeOrigin = source.nodes.find((node) => node.id === server.nodeId)?.origin ?? null
    const copied = { ...item, bytes: one.bytes, needs: [draft.bringing(`files ${server.id}`)] }
    planPart(planning, scoped, { item: copied, source: one, chosen: { input: { nodeOrigin } } })
  }
}
