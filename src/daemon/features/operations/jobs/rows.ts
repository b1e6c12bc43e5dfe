import type { listJobs } from '../../../../shared/api/jobs.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import type { JobSummary } from '../../../../shared/kernel/job.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Caller } from '../../../access/caller.ts'
import { fileSight, namesFiles, withoutFiles } from '../../../access/file-sight.ts'
import { type Holder, serverPermissions, visibleServers } from '../../../access/permit.ts'
import type { At } from '../../../access/relations.ts'
import { offsetOf, totalOf } from '../../../db/paging.ts'
import type { JobRow } from '../../../jobs/rows.ts'
import { toSummary } from '../../../jobs/view.ts'
import { visibleServerIds } from '../../servers/servers/rows.ts'

type Query = Input<typeof listJobs>['query']

/** One page of the jobs that the caller may see, newest first: their own, and those of servers that they may see. */
export async function listVisible(at: At, caller: Caller, query: Query) {
  let matching = at.q.selectFrom('job')
  if (!query.background) matching = matching.where('background', '=', 0)
  if (query.status !== undefined) matching = matching.where('status', '=', query.status)
  if (query.ended !== undefined) matching = matching.where('endedAt', query.ended ? 'is not' : 'is', null)
  for (const field of ['kind', 'serverId', 'nodeId', 'userId', 'parentId'] as const) {
    const value = query[field]
    if (value !== undefined) matching = matching.where(field, '=', value)
  }
  if (!grants(caller.permissions, 'admin.read')) {
    const servers = await visibleServers(at, caller)
    matching = matching.where((eb) => {
      const own = eb('userId', '=', caller.userId)
      return eb.or([
        caller.scope === null ? own : eb.and([own, eb('apiKeyId', '=', caller.credentialId)]),
        servers === 'all' ? eb('serverId', 'is not', null) : eb('serverId', 'in', visibleServerIds(servers)),
      ])
    })
  }
  const page = matching.selectAll().orderBy('seq', 'desc').limit(query.limit).offset(offsetOf(query))
  const items: JobSummary[] = []
  for (const row of await page.execute()) {
    const job = toSummary(row)
    items.push((await hidesFiles(at, caller, row)) ? withoutFiles(job) : job)
  }
  return { items, total: await totalOf(at.q, matching, { query, found: items.length }) }
}

/** Whose rights on a job are asked for: a caller, or for whom a change is made without a request. */
type Viewer = Holder & Partial<Pick<Caller, 'credentialId'>>

/** Whether the viewer may see the job. */
export async function maySee(at: At, viewer: Viewer, row: JobRow): Promise<boolean> {
  if (isOwn(viewer, row) || grants(viewer.permissions, 'admin.read')) return true
  if (row.serverId === null) return false
  return (await serverPermissions(at, viewer, row.serverId, ['server.read'])).length > 0
}

/** Whether the texts of a job may name files that the viewer does not get. */
export async function hidesFiles(at: At, viewer: Viewer, row: JobRow): Promise<boolean> {
  if (row.serverId === null || !namesFiles(row, viewer)) return false
  return (await fileSight(at, viewer, row.serverId)) !== 'all'
}

/** Whether the viewer may pause, resume, cancel or retry the job. */
export function mayControl(viewer: Viewer, row: JobRow): boolean {
  return isOwn(viewer, row) || grants(viewer.permissions, 'admin.write')
}

/** A key that may do less than its user owns only what it has started itself. */
function isOwn({ userId, scope, credentialId }: Viewer, row: JobRow): boolean {
  return row.userId === userId && (scope === null || row.apiKeyId === credentialId)
}
