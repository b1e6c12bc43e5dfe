import { z } from 'zod'
import { Alert } from './alert.ts'
import { JobSummary } from './job.ts'
import {
  MigrationCounts,
  MigrationJobStatus,
  MigrationOutcome,
  MigrationPhase,
  MigrationStepStatus,
} from './migration.ts'
import type { Permission } from './permissions.ts'
import { ExitCause, ServerStatus } from './server-life.ts'
import { SystemError } from './system-error.ts'

const who = z.string().nullable()

/** One type of event: the shape of its own fields, the permission a reader needs, and whether a server's stream carries it. */
interface EventKind {
  readonly data: z.ZodObject
  readonly permission: Permission
  readonly server: boolean
}

const kind = <T extends z.ZodRawShape>(permission: Permission, server: boolean, shape: T) => ({
  data: z.object(shape),
  permission,
  server,
})

/**
 * Every event that is written down. A frame is the fields below and `type`, `timestamp`
 * (ISO), and for those of one server `serverId`. Admin streams carry each to holders of its permission, a server's stream
 * carries those marked `server`. New types may be added; readers ignore what they do not know.
 */
export const EVENTS = {
  server_state_update: kind('server.read', true, {
    state: ServerStatus,
    previousState: ServerStatus,
    desired: z.string(),
    generation: z.int(),
    reason: z.string().nullable(),
    exitCode: z.int().nullable(),
    exitSignal: z.string().nullable(),
    exitCause: ExitCause.nullable().default(null),
    exitReason: z.string().nullable().default(null),
    crashCount: z.int(),
    nextRestartAt: z.string().nullable(),
  }),
  server_command_done: kind('server.read', true, {
    commandId: z.string(),
    op: z.string(),
    ok: z.boolean(),
    noop: z.boolean(),
    code: z.string().nullable(),
    error: z.string().nullable(),
    /** What the order answers: a deletion the number of removed `entries`. */
    result: z.record(z.string(), z.unknown()).nullish(),
  }),
  /** A game asks for an agreement before it runs; once more with each start that was refused for want of it. */
  eula_required: kind('server.read', true, {
    serverUuid: z.string(),
    /** The same once more, by the name that some clients know. */
    eulaServerUuid: z.string(),
    eulaText: z.string(),
  }),
  server_created: kind('server.read', true, {
    serverName: z.string(),
    ownerId: z.string(),
    nodeId: z.string(),
    createdBy: who,
  }),
  server_updated: kind('server.read', true, { updatedBy: who, change: z.string().optional() }),
  /** Once for each operation of the panel on files, also of many: what a game does by itself is not seen. */
  server_files_changed: kind('file.read', true, {
    action: z.enum([
      'upload',
      'create',
      'write',
      'rename',
      'copy',
      'permissions',
      'link',
      'delete',
      'compress',
      'decompress',
      'pull',
      'sftp',
    ]),
    path: z.string().optional(),
    from: z.string().optional(),
    to: z.string().optional(),
    /** The folders that a listing shows otherwise now, at most 100 of them; `allFolders` says whether these are all. */
    folders: z.array(z.string()),
    allFolders: z.boolean(),
    changedBy: who,
  }),
  server_suspended: kind('server.read', true, {
    serverName: z.string(),
    suspendedBy: who,
    reason: z.string().nullable(),
    bulk: z.boolean().optional(),
  }),
  server_unsuspended: kind('server.read', true, {
    serverName: z.string(),
    unsuspendedBy: who,
    bulk: z.boolean().optional(),
  }),
  server_deleted: kind('server.read', true, { serverName: z.string(), ownerId: z.string().optional(), deletedBy: who }),
  backup_started: kind('server.read', true, { backupId: z.string(), backupName: z.string() }),
  /** At most every two seconds; `percent` is `null` while nobody knows how much there is. */
  backup_progress: kind('server.read', true, {
    backupId: z.string(),
    percent: z.number().nullable(),
    entries: z.number(),
    bytes: z.number(),
  }),
  backup_restore_started: kind('server.read', true, { backupId: z.string(), backupName: z.string() }),
  backup_restore_complete: kind('server.read', true, {
    backupId: z.string(),
    backupName: z.string(),
    success: z.boolean(),
    error: z.string().optional(),
  }),
  backup_delete_started: kind('server.read', true, { backupId: z.string(), backupName: z.string() }),
  backup_delete_complete: kind('server.read', true, {
    backupId: z.string(),
    backupName: z.string(),
    success: z.boolean(),
    error: z.string().optional(),
  }),
  /** Beside `backup_started` and `backup_delete_complete`, for those who see all servers. */
  backup_created: kind('backup.read', false, {
    backupId: z.string(),
    backupName: z.string(),
    backupServerId: z.string(),
    createdBy: who,
  }),
  backup_deleted: kind('backup.read', false, {
    backupId: z.string(),
    backupName: z.string(),
    backupServerId: z.string().nullable(),
    deletedBy: who,
  }),
  backup_policy_created: kind('admin.read', false, { policyId: z.string(), policyName: z.string(), createdBy: who }),
  backup_policy_updated: kind('admin.read', false, { policyId: z.string(), policyName: z.string(), updatedBy: who }),
  backup_policy_run_started: kind('admin.read', false, {
    policyId: z.string(),
    policyName: z.string(),
    runId: z.string(),
    cause: z.enum(['schedule', 'manual']),
    servers: z.number(),
    startedBy: who,
  }),
  backup_policy_run_ended: kind('admin.read', false, {
    policyId: z.string(),
    policyName: z.string(),
    runId: z.string(),
    status: z.enum(['completed', 'failed', 'cancelled', 'superseded']),
    completed: z.number(),
    failed: z.number(),
    skipped: z.number(),
  }),
  backup_policy_deleted: kind('admin.read', false, { policyId: z.string(), policyName: z.string(), deletedBy: who }),
  backup_complete: kind('server.read', true, {
    backupId: z.string(),
    backupName: z.string(),
    sizeMb: z.number().nullable(),
    checksum: z.string().nullable(),
    status: z.enum(['completed', 'failed']),
    error: z.string().optional(),
    /** Somebody wanted it to end: it is no failure that raises an alert. */
    cancelled: z.boolean().optional(),
  }),
  /**
   * A job was made, has moved on, or has ended: `job.status` says which. Progress within a step comes at most once a
   * second. Jobs of a server are shown by `server_job_updated` too, in its own stream.
   */
  job_updated: kind('admin.read', false, { job: JobSummary }),
  server_job_updated: kind('server.read', true, { job: JobSummary }),
  migration_started: kind('admin.write', false, { jobId: z.string(), sourceUrl: z.string(), startedBy: who }),
  /** The status of a migration has changed, whatever its new one; those below are beside it for the ends and pauses. */
  migration_status: kind('admin.write', false, {
    jobId: z.string(),
    from: MigrationJobStatus,
    to: MigrationJobStatus,
    error: z.string().nullable(),
    errorCode: z.string().nullable(),
  }),
  /** How far a migration is, after each step that has ended. */
  migration_progress: kind('admin.write', false, {
    jobId: z.string(),
    phase: MigrationPhase.nullable(),
    progress: MigrationCounts,
  }),
  migration_step_updated: kind('admin.write', false, {
    jobId: z.string(),
    stepId: z.string(),
    phase: MigrationPhase,
    action: z.string(),
    name: z.string(),
    status: MigrationStepStatus,
    attempt: z.int(),
    reason: z.string().nullable(),
    error: z.string().nullable(),
    errorCode: z.string().nullable(),
  }),
  /** How far a step is that takes long; every few seconds, and not kept for long. */
  migration_step_progress: kind('admin.write', false, {
    jobId: z.string(),
    stepId: z.string(),
    bytes: z.number(),
    totalBytes: z.number().nullable(),
    entries: z.number(),
  }),
  /** The source has asked to be left alone for a while. */
  migration_throttled: kind('admin.write', false, { jobId: z.string(), waitSeconds: z.number() }),
  migration_paused: kind('admin.write', false, { jobId: z.string() }),
  migration_completed: kind('admin.write', false, { jobId: z.string(), outcome: MigrationOutcome }),
  migration_failed: kind('admin.write', false, {
    jobId: z.string(),
    error: z.string(),
    errorCode: z.string().nullable(),
  }),
  migration_cancelled: kind('admin.write', false, { jobId: z.string() }),
  /** An alert of this server was created or resolved; `alert.resolved` says which. */
  alert: kind('alert.read', true, { alert: Alert }),
  alert_created: kind('alert.read', false, { alert: Alert }),
  /** `resolvedBy` is `null` where the cause has gone by itself. */
  alert_resolved: kind('alert.read', false, { alertId: z.string(), alert: Alert, resolvedBy: who }),
  alert_deleted: kind('alert.read', false, { alertId: z.string(), deletedBy: who }),
  alert_rule_created: kind('alert.read', false, { ruleId: z.string(), ruleName: z.string(), createdBy: who }),
  alert_rule_updated: kind('alert.read', false, { ruleId: z.string(), ruleName: z.string(), updatedBy: who }),
  alert_rule_deleted: kind('alert.read', false, { ruleId: z.string(), ruleName: z.string(), deletedBy: who }),
  node_created: kind('node.read', false, {
    nodeId: z.string(),
    nodeName: z.string(),
    locationId: z.string(),
    createdBy: who,
  }),
  node_updated: kind('node.read', false, {
    nodeId: z.string(),
    isOnline: z.boolean().optional(),
    updatedBy: who.optional(),
    change: z.string().optional(),
  }),
  node_assigned: kind('node.read', false, {
    nodeId: z.string(),
    targetType: z.string(),
    targetId: z.string(),
    assignmentId: z.string(),
    assignedBy: who,
  }),
  node_unassigned: kind('node.read', false, {
    nodeId: z.string(),
    targetType: z.string(),
    targetId: z.string(),
    assignmentId: z.string(),
    removedBy: who,
  }),
  wildcard_assigned: kind('node.read', false, {
    targetType: z.string(),
    targetId: z.string(),
    assignmentId: z.string(),
    assignedBy: who,
  }),
  wildcard_removed: kind('node.read', false, {
    targetType: z.string(),
    targetId: z.string(),
    assignmentId: z.string(),
    removedBy: who,
  }),
  node_deleted: kind('node.read', false, { nodeId: z.string(), nodeName: z.string(), deletedBy: who }),
  ip_pool_created: kind('admin.read', false, { poolId: z.string(), nodeId: z.string(), createdBy: who }),
  ip_pool_updated: kind('admin.read', false, { poolId: z.string(), nodeId: z.string(), updatedBy: who }),
  ip_pool_deleted: kind('admin.read', false, { poolId: z.string(), nodeId: z.string(), deletedBy: who }),
  location_created: kind('location.read', false, { locationId: z.string(), locationName: z.string(), createdBy: who }),
  location_updated: kind('location.read', false, { locationId: z.string(), locationName: z.string(), updatedBy: who }),
  location_deleted: kind('location.read', false, { locationId: z.string(), locationName: z.string(), deletedBy: who }),
  nest_created: kind('template.read', false, { nestId: z.string(), nestName: z.string(), createdBy: who }),
  nest_updated: kind('template.read', false, { nestId: z.string(), nestName: z.string(), updatedBy: who }),
  nest_deleted: kind('template.read', false, { nestId: z.string(), nestName: z.string(), deletedBy: who }),
  template_created: kind('template.read', false, { templateId: z.string(), templateName: z.string(), createdBy: who }),
  template_updated: kind('template.read', false, { templateId: z.string(), templateName: z.string(), updatedBy: who }),
  template_deleted: kind('template.read', false, { templateId: z.string(), templateName: z.string(), deletedBy: who }),
  api_key_created: kind('apikey.manage', false, { keyId: z.string(), keyName: z.string(), createdBy: who }),
  api_key_updated: kind('apikey.manage', false, { keyId: z.string(), keyName: z.string(), updatedBy: who }),
  api_key_deleted: kind('apikey.manage', false, { keyId: z.string(), keyName: z.string(), deletedBy: who }),
  user_created: kind('user.read', false, {
    user: z.object({
      id: z.string(),
      email: z.string(),
      username: z.string(),
      createdAt: z.string().optional(),
      updatedAt: z.string().optional(),
      roles: z.array(z.object({ id: z.string(), name: z.string() })).optional(),
    }),
    createdBy: who,
  }),
  user_updated: kind('user.read', false, {
    userId: z.string(),
    username: z.string(),
    updatedBy: who,
    change: z.string().optional(),
    roleId: z.string().optional(),
  }),
  user_deleted: kind('user.read', false, {
    userId: z.string(),
    email: z.string(),
    username: z.string(),
    deletedBy: who,
  }),
  role_created: kind('role.read', false, { roleId: z.string(), roleName: z.string(), createdBy: who }),
  role_updated: kind('role.read', false, {
    roleId: z.string(),
    roleName: z.string(),
    updatedBy: who,
    change: z.string().optional(),
  }),
  role_deleted: kind('role.read', false, { roleId: z.string(), roleName: z.string(), deletedBy: who }),
  auth_lockout_created: kind('admin.read', false, {
    lockoutId: z.string(),
    /** The account, when there is one. */
    userId: who,
    email: z.string(),
    ipAddress: z.string(),
    lockedUntil: z.string(),
    failureCount: z.int(),
  }),
  auth_lockout_cleared: kind('admin.read', false, {
    lockoutId: z.string(),
    email: z.string(),
    ipAddress: z.string(),
    clearedBy: who,
  }),
  /** A check of the database file has ended otherwise than the one before. */
  db_status_changed: kind('admin.read', false, { status: z.enum(['ok', 'damaged', 'failed']) }),
  backup_store_created: kind('admin.read', false, { storeId: z.string(), storeName: z.string(), createdBy: who }),
  backup_store_updated: kind('admin.read', false, { storeId: z.string(), storeName: z.string(), updatedBy: who }),
  backup_store_deleted: kind('admin.read', false, { storeId: z.string(), storeName: z.string(), deletedBy: who }),
  self_backup_updated: kind('admin.read', false, {
    backupId: z.string(),
    status: z.enum(['pending', 'completed', 'failed']),
    error: z.string().nullable(),
  }),
  self_backup_deleted: kind('admin.read', false, { backupId: z.string() }),
  database_host_created: kind('admin.read', false, { hostId: z.string(), hostName: z.string(), createdBy: who }),
  database_host_updated: kind('admin.read', false, { hostId: z.string(), hostName: z.string(), updatedBy: who }),
  database_host_deleted: kind('admin.read', false, { hostId: z.string(), hostName: z.string(), deletedBy: who }),
  database_created: kind('server.read', true, { databaseId: z.string(), databaseName: z.string(), createdBy: who }),
  /** `dropped` false: it was forgotten here, and is still on its host. */
  database_deleted: kind('server.read', true, {
    databaseId: z.string(),
    databaseName: z.string(),
    deletedBy: who,
    dropped: z.boolean().optional(),
  }),
  database_adopted: kind('server.read', true, { databaseId: z.string(), databaseName: z.string(), adoptedBy: who }),
  database_password_rotated: kind('server.read', true, {
    databaseId: z.string(),
    databaseName: z.string(),
    rotatedBy: who,
  }),
  task_created: kind('server.read', true, { taskId: z.string(), taskName: z.string(), createdBy: who }),
  task_updated: kind('server.read', true, { taskId: z.string(), taskName: z.string(), updatedBy: who }),
  task_deleted: kind('server.read', true, { taskId: z.string(), taskName: z.string(), deletedBy: who }),
  /** A run of a schedule has begun, or goes on with its next step. */
  task_progress: kind('server.read', true, {
    taskId: z.string(),
    taskName: z.string(),
    runId: z.string(),
    status: z.literal('running'),
    /** From 1; `null` before the first. */
    step: z.int().nullable(),
    steps: z.int(),
  }),
  /** A run of a schedule has ended, or was left out; one that was aborted has `failed`. */
  task_complete: kind('server.read', true, {
    taskId: z.string(),
    taskName: z.string(),
    runId: z.string(),
    status: z.enum(['success', 'failed', 'skipped']),
    lastRunAt: z.string().nullable(),
    error: z.string().optional(),
  }),
  localization_settings_updated: kind('admin.read', false, { updatedBy: who }),
  oidc_settings_updated: kind('admin.read', false, { updatedBy: who }),
  security_settings_updated: kind('admin.read', false, { updatedBy: who }),
  smtp_settings_updated: kind('admin.read', false, { updatedBy: who }),
  system_settings_updated: kind('admin.read', false, { updatedBy: who }),
  theme_settings_updated: kind('admin.read', false, { updatedBy: who }),
  plugin_updated: kind('admin.read', false, {
    name: z.string(),
    action: z.enum(['enabled', 'disabled', 'reloaded', 'config_updated', 'failed']),
    updatedBy: who,
  }),
  audit_log_created: kind('admin.read', false, {
    id: z.string(),
    action: z.string(),
    userId: who,
    resource: z.string(),
    resourceId: z.string().nullable(),
  }),
  /** A bug shows itself for the first time, or again after it was resolved; repetitions are only counted. */
  system_error: kind('admin.read', false, { error: SystemError }),
  webhook_created: kind('admin.read', false, { webhookId: z.string(), webhookName: z.string(), createdBy: who }),
  /** `change` is `disabled_failing` where the panel itself has switched it off. */
  webhook_updated: kind('admin.read', false, {
    webhookId: z.string(),
    webhookName: z.string(),
    updatedBy: who,
    change: z.string().optional(),
  }),
  webhook_deleted: kind('admin.read', false, { webhookId: z.string(), webhookName: z.string(), deletedBy: who }),
  /** `errorId` is `null` where several were resolved together. */
  system_error_resolved: kind('admin.read', false, {
    errorId: z.string().nullable(),
    resolved: z.int(),
    resolvedBy: who,
  }),
  update_state_changed: kind('admin.read', false, {
    state: z.string(),
    previousVersion: z.string(),
    targetVersion: z.string(),
  }),
} as const satisfies Record<string, EventKind>

/** The name of a written event. */
export type EventType = keyof typeof EVENTS

/** The fields of an event of type `T`, without `type`, `timestamp` and `serverId`. */
export type EventData<T extends EventType> = z.infer<(typeof EVENTS)[T]['data']>

/** Whether the text names an event of this version. */
export function isEventType(text: string): text is EventType {
  return Object.hasOwn(EVENTS, text)
}

/** The last usage of a server as streams push it; it is not stored and carries no id. */
export const ResourceStats = z.object({
  /** The share of the cores that it may have; above 100 where nothing holds it to them. */
  cpuPercent: z.number().nullable(),
  /** The cores in use: 0.5 is half of one. */
  cpuCores: z.number().nullable(),
  memoryUsageMb: z.number().nullable(),
  memoryTotalMb: z.number(),
  diskUsageMb: z.number().nullable(),
  diskTotalMb: z.number(),
  diskIoMb: z.number().nullable(),
  networkRxBytes: z.string().nullable(),
  networkTxBytes: z.string().nullable(),
  processes: z.int().nullable(),
  uptimeMs: z.number().nullable(),
  /** By the game's own answer, a few seconds old; `null`: it is not asked, or has not answered. */
  playersOnline: z.int().nullable().default(null),
  playersMax: z.int().nullable().default(null),
  /** At most 100, and none where the game does not say them. */
  playerNames: z.array(z.string()).default([]),
})
export type ResourceStats = z.infer<typeof ResourceStats>

/** A frame that says why a stream ends, or that something is amiss. */
export const StreamError = z.object({
  type: z.literal('error'),
  error: z.enum([
    'auth_failed',
    'auth_expired',
    'auth_lockout',
    'connection_limit',
    'permission_denied',
    'server_suspended',
    'server_deleted',
    'agent_offline',
    'slow_consumer',
    'server_shutdown',
    'internal',
  ]),
  code: z.string().optional(),
  message: z.string().optional(),
  serverId: z.string().optional(),
  retryAfterSeconds: z.number().optional(),
  timestamp: z.string(),
})
export type StreamError = z.infer<typeof StreamError>

/** How far an order to a server is, while it is carried out; it is not kept, and any may be missing. */
export const CommandProgress = z.object({
  serverId: z.string(),
  commandId: z.string(),
  op: z.string(),
  /** An installation: `step` is `emptying`, `script` or `starting`. */
  progress: z.record(z.string(), z.unknown()),
})
