import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { IsoTime } from '../kernel/time.ts'

const versions = {
  currentVersion: z.string(),
  /** `null` as long as no feed is configured or none could be read. */
  latestVersion: z.string().nullable(),
  updateAvailable: z.boolean(),
  isDocker: z.boolean(),
}

export const checkUpdate = defineEndpoint({
  id: 'update.check',
  tag: 'Settings',
  summary: 'Show whether there is a newer version',
  method: 'GET',
  path: '/api/update/check',
  access: 'session',
  response: z.object(versions),
})

/** What is known about newer versions. */
export const UpdateStatus = z.object({
  ...versions,
  /** How this copy came here: as an npm package, a git clone, a container or plain files. */
  origin: z.enum(['package', 'git', 'container', 'files']),
  /** The last time that the feed was asked, with or without success. */
  lastCheckedAt: IsoTime.nullable(),
  /** Why `latestVersion` is not known; `null` when it is. */
  checkError: z.string().nullable(),
  releaseUrl: z.string().nullable(),
  publishedAt: IsoTime.nullable(),
  /** Always false: the panel does not change its own program. */
  autoUpdateEnabled: z.literal(false),
})
export type UpdateStatus = z.infer<typeof UpdateStatus>

export const getUpdateStatus = defineEndpoint({
  id: 'update.status',
  tag: 'Admin',
  summary: 'Show the installed and the newest version',
  method: 'GET',
  path: '/api/admin/update/status',
  access: { panel: 'admin.write' },
  response: UpdateStatus,
})

/**
 * How an update stands. The program is exchanged while the daemon does not run, so that of the phases of an update
 * it can report `checking` (the feed is being asked), `completed` (this start was the first one of another version) and `idle`.
 */
export const UpdateState = z.object({
  state: z.enum(['idle', 'checking', 'pulling', 'building', 'migrating', 'restarting', 'completed', 'failed']),
  progress: z.int().min(0).max(100).nullable(),
  message: z.string().nullable(),
  targetVersion: z.string().nullable(),
  startedAt: IsoTime.nullable(),
  finishedAt: IsoTime.nullable(),
  error: z.string().nullable(),
  log: z.array(z.string()),
})
export type UpdateState = z.infer<typeof UpdateState>

export const getUpdateState = defineEndpoint({
  id: 'update.state',
  tag: 'Admin',
  summary: 'Show whether an update is under way and how the last one went',
  method: 'GET',
  path: '/api/admin/update/state',
  access: { panel: 'admin.write' },
  response: UpdateState,
})
