import { FileReach } from '../../shared/kernel/file-paths.ts'
import type { JobSummary } from '../../shared/kernel/job.ts'
import { grants } from '../../shared/kernel/permissions.ts'
import { memberPaths } from './member-paths.ts'
import { type Holder, serverPermissions } from './permit.ts'
import type { At } from './relations.ts'

/** Of which files of a server somebody may hear: of all, of those that a member is held to, or of none. */
export type FileSight = 'all' | 'none' | FileReach

/** What somebody may hear of the files of a server. Whoever reads all of the panel hears of all. */
export async function fileSight(at: At, viewer: Holder, serverId: string): Promise<FileSight> {
  if (grants(viewer.permissions, 'admin.read')) return 'all'
  if ((await serverPermissions(at, viewer, serverId, ['file.read'])).length === 0) return 'none'
  const filePaths = await memberPaths(at, viewer, serverId)
  return filePaths === null ? 'all' : new FileReach(filePaths)
}

/** Whether a path may be named: that of a file, or of what nobody knows whether it is one; `isFolder`: of a folder, also on the way. */
export function mayName(sight: FileSight, path: string, isFolder: boolean): boolean {
  if (typeof sight === 'string') return sight === 'all'
  return isFolder ? sight.opens(path) : sight.allows(path, true)
}

/** Kinds of jobs whose texts name files. */
const OF_FILES: ReadonlySet<string> = new Set(['files.work'])

/** Whether a job may name files that its viewer does not get: those of a server, which somebody else has started. */
export function namesFiles(
  { kind, userId, serverId }: Pick<JobSummary, 'kind' | 'userId' | 'serverId'>,
  viewer: Holder,
): boolean {
  const isOwn = userId === viewer.userId && viewer.scope === null
  return serverId !== null && !isOwn && (OF_FILES.has(kind) || kind.startsWith('backups.'))
}

/** The same job without texts that name files. */
export function withoutFiles<T extends Pick<JobSummary, 'kind' | 'title' | 'error' | 'progress'>>(job: T): T {
  if (!OF_FILES.has(job.kind)) return job
  const progress = job.progress === null ? null : { ...job.progress, text: null }
  return { ...job, title: 'Work on files', error: job.error === null ? null : 'It has failed', progress }
}
