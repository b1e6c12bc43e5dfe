import { z } from 'zod'
import { defineExactEndpoint, NoData } from '../kernel/contract.ts'
import {
  BackupId,
  BackupPolicyId,
  BackupPolicyRunId,
  BackupStoreId,
  LocationId,
  NodeId,
  ServerId,
  UserId,
} from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { CronLine, TimeZone } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { BackupKind, Compression } from '../protocol/backups.ts'
import { BackupLabel, IgnoreList } from './backups.ts'

/** Which servers a policy means. */
export const PolicyTarget = z.enum(['all', 'location', 'node', 'servers'])

/** Servers that it means now, by how it stands with them. */
const Counts = z.object({
  servers: z.int(),
  /** Backups that are due and not made, those that wait or are under way included. */
  due: z.int(),
  running: z.int(),
  failed: z.int(),
  overdue: z.int(),
})

/** Backups that the host makes of many servers. */
export const BackupPolicy = z.object({
  id: BackupPolicyId,
  name: z.string(),
  enabled: z.boolean(),
  target: PolicyTarget,
  locationId: LocationId.nullable(),
  nodeId: NodeId.nullable(),
  serverIds: z.array(ServerId),
  cron: z.string(),
  timeZone: z.string(),
  kind: BackupKind,
  compression: Compression,
  /** `null`: the store that each server has. */
  storeId: BackupStoreId.nullable(),
  label: z.string().nullable(),
  ignored: z.array(z.string()),
  databases: z.boolean(),
  /** For each server; 0: no bound. */
  keepCount: z.int(),
  keepDays: z.int(),
  /** Backups at a time on one node. */
  perNode: z.int(),
  /** What its backups of one server may take together. They do not count for the server itself. */
  allocationMb: z.int().nullable(),
  lastRunAt: IsoTime.nullable(),
  nextRunAt: IsoTime.nullable(),
  counts: Counts,
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type BackupPolicy = z.infer<typeof BackupPolicy>

/**
 * How a policy stands with one server. `due`: a backup waits for its turn; `failed`: the last one has, and the next run makes another;
 * `overdue`: none was made until the next run, or for a day; because the node is away or backups fail.
 */
export const PolicyServer = z.object({
  serverId: ServerId,
  serverName: z.string(),
  nodeId: NodeId,
  nodeName: z.string(),
  state: z.enum(['idle', 'due', 'running', 'failed', 'overdue']),
  /** Since when a backup is due that has not been made. */
  dueAt: IsoTime.nullable(),
  /** Why it waits or has failed. */
  reason: z.string().nullable(),
  /** The last one that is whole; it may be deleted by now. */
  lastBackupId: BackupId.nullable(),
  lastSuccessAt: IsoTime.nullable(),
  lastFailureAt: IsoTime.nullable(),
})
export type PolicyServer = z.infer<typeof PolicyServer>

/**
 * One time that a policy had its servers backed up. `superseded`: the next run has begun before all servers had their turn, and has
 * taken those over.
 */
export const PolicyRun = z.object({
  id: BackupPolicyRunId,
  policyId: BackupPolicyId,
  cause: z.enum(['schedule', 'manual']),
  status: z.enum(['running', 'completed', 'failed', 'cancelled', 'superseded']),
  /** When it was to begin: before it did when the daemon was down. */
  dueAt: IsoTime,
  startedAt: IsoTime,
  startedBy: UserId.nullable(),
  endedAt: IsoTime.nullable(),
  counts: z.object({
    servers: z.int(),
    waiting: z.int(),
    running: z.int(),
    completed: z.int(),
    failed: z.int(),
    skipped: z.int(),
  }),
})
export type PolicyRun = z.infer<typeof PolicyRun>

/** What became of one server in a run. */
export const PolicyResult = z.object({
  serverId: ServerId,
  serverName: z.string(),
  /** `null`: the server is gone. */
  nodeId: NodeId.nullable(),
  nodeName: z.string().nullable(),
  state: z.enum(['waiting', 'running', 'completed', 'failed', 'skipped']),
  backupId: BackupId.nullable(),
  /** Why it waits, has failed, or was skipped. */
  reason: z.string().nullable(),
  startedAt: IsoTime.nullable(),
  endedAt: IsoTime.nullable(),
})
export type PolicyResult = z.infer<typeof PolicyResult>

const fields = {
  name: z.string().trim().min(1).max(100),
  enabled: z.boolean(),
  target: PolicyTarget,
  locationId: LocationId.nullable(),
  nodeId: NodeId.nullable(),
  serverIds: z.array(ServerId).max(5000),
  cron: CronLine,
  timeZone: TimeZone,
  kind: BackupKind,
  compression: Compression,
  storeId: BackupStoreId.nullable(),
  label: BackupLabel.nullable(),
  ignored: IgnoreList,
  databases: z.boolean(),
  keepCount: z.int().min(0).max(1000),
  keepDays: z.int().min(0).max(3650),
  perNode: z.int().min(1).max(8),
  allocationMb: z.int().min(1).max(1_000_000_000).nullable(),
}

const params = { policyId: BackupPolicyId }
const refusals = [
  'NODE_NOT_FOUND',
  'LOCATION_NOT_FOUND',
  'SERVER_NOT_FOUND',
  'BACKUP_STORE_NOT_FOUND',
  'CONFLICT',
] as const

export const listBackupPolicies = defineExactEndpoint({
  id: 'backup_policies.list',
  tag: 'Admin',
  summary: 'List backup policies by name',
  method: 'GET',
  path: '/api/backup-policies',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ search: z.string().max(100).optional() }),
  response: z.array(BackupPolicy),
  paged: true,
})

export const getBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.get',
  tag: 'Admin',
  summary: 'Show a backup policy',
  method: 'GET',
  path: '/api/backup-policies/:policyId',
  access: { panel: 'admin.read' },
  params,
  response: BackupPolicy,
  errors: ['BACKUP_POLICY_NOT_FOUND'],
})

export const createBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.create',
  tag: 'Admin',
  summary: 'Create a backup policy',
  method: 'POST',
  path: '/api/backup-policies',
  access: { panel: 'admin.write' },
  body: z.object({
    ...fields,
    enabled: fields.enabled.default(true),
    target: fields.target.default('all'),
    locationId: fields.locationId.default(null),
    nodeId: fields.nodeId.default(null),
    serverIds: fields.serverIds.default([]),
    /** That of the panel if not given. */
    timeZone: fields.timeZone.optional(),
    kind: fields.kind.default('incremental'),
    compression: fields.compression.default('gzip'),
    storeId: fields.storeId.default(null),
    label: fields.label.default(null),
    ignored: fields.ignored.default([]),
    databases: fields.databases.default(false),
    keepCount: fields.keepCount.default(7),
    keepDays: fields.keepDays.default(0),
    perNode: fields.perNode.default(2),
    allocationMb: fields.allocationMb.default(null),
  }),
  response: BackupPolicy,
  status: 201,
  errors: refusals,
  audit: { action: 'backup_policy.create' },
})

export const updateBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.update',
  tag: 'Admin',
  summary: 'Change a backup policy; what it has made stays',
  method: 'PATCH',
  path: '/api/backup-policies/:policyId',
  access: { panel: 'admin.write' },
  params,
  body: z.object(fields).partial(),
  response: BackupPolicy,
  errors: ['BACKUP_POLICY_NOT_FOUND', ...refusals],
  audit: { action: 'backup_policy.update' },
})

export const deleteBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.delete',
  tag: 'Admin',
  summary: 'Delete a backup policy; its backups stay until somebody deletes them',
  method: 'DELETE',
  path: '/api/backup-policies/:policyId',
  access: { panel: 'admin.write' },
  params,
  response: NoData,
  errors: ['BACKUP_POLICY_NOT_FOUND'],
  audit: { action: 'backup_policy.delete' },
})

export const runBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.run',
  tag: 'Admin',
  summary: 'Run a backup policy now, also one that is paused; what still waits of the run before belongs to this one',
  method: 'POST',
  path: '/api/backup-policies/:policyId/run',
  access: { panel: 'admin.write' },
  params,
  response: PolicyRun,
  status: 202,
  errors: ['BACKUP_POLICY_NOT_FOUND'],
  audit: { action: 'backup_policy.run' },
})

export const cancelBackupPolicy = defineExactEndpoint({
  id: 'backup_policies.cancel',
  tag: 'Admin',
  summary: 'Cancel the run of a backup policy that is under way, with the backups that it makes',
  method: 'POST',
  path: '/api/backup-policies/:policyId/cancel',
  access: { panel: 'admin.write' },
  params,
  response: PolicyRun,
  errors: ['BACKUP_POLICY_NOT_FOUND', 'CONFLICT'],
  audit: { action: 'backup_policy.cancel' },
})

export const listPolicyServers = defineExactEndpoint({
  id: 'backup_policies.servers',
  tag: 'Admin',
  summary: 'List how a backup policy stands with each of its servers, by name',
  method: 'GET',
  path: '/api/backup-policies/:policyId/servers',
  access: { panel: 'admin.read' },
  params,
  query: pageQuery().extend({ state: PolicyServer.shape.state.optional() }),
  response: z.array(PolicyServer),
  paged: true,
  errors: ['BACKUP_POLICY_NOT_FOUND'],
})

export const listPolicyRuns = defineExactEndpoint({
  id: 'backup_policies.runs',
  tag: 'Admin',
  summary: 'List the last runs of a backup policy, newest first',
  method: 'GET',
  path: '/api/backup-policies/:policyId/runs',
  access: { panel: 'admin.read' },
  params,
  query: pageQuery().extend({ status: PolicyRun.shape.status.optional() }),
  response: z.array(PolicyRun),
  paged: true,
  errors: ['BACKUP_POLICY_NOT_FOUND'],
})

const runParams = { ...params, runId: BackupPolicyRunId }

export const getPolicyRun = defineExactEndpoint({
  id: 'backup_policies.run_get',
  tag: 'Admin',
  summary: 'Show a run of a backup policy',
  method: 'GET',
  path: '/api/backup-policies/:policyId/runs/:runId',
  access: { panel: 'admin.read' },
  params: runParams,
  response: PolicyRun,
  errors: ['BACKUP_POLICY_NOT_FOUND', 'BACKUP_POLICY_RUN_NOT_FOUND'],
})

export const listPolicyResults = defineExactEndpoint({
  id: 'backup_policies.run_results',
  tag: 'Admin',
  summary: 'List what became of each server in a run of a backup policy, by name',
  method: 'GET',
  path: '/api/backup-policies/:policyId/runs/:runId/results',
  access: { panel: 'admin.read' },
  params: runParams,
  query: pageQuery().extend({ state: PolicyResult.shape.state.optional() }),
  response: z.array(PolicyResult),
  paged: true,
  errors: ['BACKUP_POLICY_NOT_FOUND', 'BACKUP_POLICY_RUN_NOT_FOUND'],
})
