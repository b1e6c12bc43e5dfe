import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { LocationId, MigrationId, MigrationStepId, NodeId } from '../kernel/ids.ts'
import {
  MigrationCounts,
  MigrationJobStatus,
  MigrationOutcome,
  MigrationPhase,
  MigrationStepStatus,
} from '../kernel/migration.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'
import { MIGRATION_LIMITS } from '../protocol/migration.ts'

/** Which program the servers come from; `directory`: folders of a node, with a manifest each. */
export const SourceKind = z.enum(['pterodactyl', 'pelican', 'directory'])
export type SourceKind = z.infer<typeof SourceKind>

/** What comes along: `full` and `node`: the servers of the nodes that are mapped; `server`: those that are named. */
export const MigrationScope = z.enum(['full', 'node', 'server'])
export type MigrationScope = z.infer<typeof MigrationScope>

/** An id of the source as a key of a mapping: a number there, or a name of a folder. */
const SourceId = z.string().min(1).max(191)
const Mapping = z
  .record(SourceId, NodeId)
  .refine((map) => Object.keys(map).length <= 10_000, 'has more than 10000 entries')

/** What is done where the target holds something already, or lacks room. The first of each is the default. */
export const ConflictPolicies = z.object({
  location: z.enum(['link', 'suffix', 'fail']).default('link'),
  /** Of a template of the same origin whose content differs. The same content is always linked. */
  template: z.enum(['suffix', 'overwrite', 'link', 'fail']).default('suffix'),
  user: z.enum(['link', 'skip', 'fail']).default('link'),
  /** Of a server with the same UUID that no migration has made. */
  server: z.enum(['fail', 'skip', 'new_uuid']).default('fail'),
  port: z.enum(['fail', 'remap']).default('fail'),
  capacity: z.enum(['fail', 'warn']).default('fail'),
  /** `record`: it stays on its host, which has to be a database host of this panel; `copy`: it is made anew on a host of this panel, with what it holds. */
  database: z.enum(['record', 'copy', 'skip']).default('record'),
  files: z.enum(['fail', 'replace', 'merge']).default('fail'),
})
export type ConflictPolicies = z.infer<typeof ConflictPolicies>

const WebAddress = z.url({ protocol: /^https?$/ })
/** Addresses are stored, answered and written into plans as they are. */
const WITHOUT_SECRETS = [isWithoutSecrets, 'must have no user name or password in it'] as const

const PortRange = z
  .object({ from: z.int().min(1024).max(65535), to: z.int().min(1024).max(65535) })
  .refine(({ from, to }) => from <= to, 'from must not be above to')

/** How a migration is carried out, beside what it brings. */
export const MigrationOptions = z.object({
  conflicts: ConflictPolicies.default(() => ConflictPolicies.parse({})),
  /** Where ports are taken from that are remapped. */
  portRange: PortRange.default({ from: 20_000, to: 29_999 }),
  /** What a limit is set to that the source leaves open; not given: a conflict of the plan. */
  unlimited: z
    .object({
      memoryMb: z.int().min(64).max(16_777_216).optional(),
      diskMb: z.int().min(64).max(1_000_000_000).optional(),
      cpuCores: z.number().min(0.1).max(1024).optional(),
    })
    .default({}),
  /** How files come: by a backup of the source, file by file from its node, or the first of them that each server allows. */
  transport: z.enum(['auto', 'backup', 'node']).default('auto'),
  /** Where archives of the source may lie beside its nodes, such as the object store of its backups: scheme, host and port. */
  archiveOrigins: z
    .array(WebAddress.max(300).refine(...WITHOUT_SECRETS))
    .max(20)
    .default([]),
  /** Database hosts of the source that are asked although their addresses are private: `host` or `host:port`, as the source names them. */
  databaseHosts: z.array(z.string().trim().toLowerCase().min(1).max(260)).max(20).default([]),
  /** How long a backup of the source may take until another way is taken. */
  backupTimeoutSeconds: z.int().min(1).max(86_400).default(3600),
  /** Bytes that each target node may fetch in a second; without it as fast as they come. */
  bytesPerSecond: z
    .int()
    .min(MIGRATION_LIMITS.leastBytesPerSecond)
    .max(1024 ** 4)
    .optional(),
  /** What is done with a running server of the source before its files are read; undone at the end. */
  freeze: z.enum(['stop', 'none', 'suspend']).default('stop'),
  /** What is read again of the files that arrived. */
  verify: z.enum(['full', 'sample', 'none']).default('full'),
  /** By what the servers of imported templates run; eggs know containers alone. */
  runtimes: z
    .array(z.enum(['process', 'docker']))
    .min(1)
    .max(2)
    .default(['docker']),
  /** Give servers the folders of nodes that they have on the source, by the same paths; otherwise the report lists them. */
  mounts: z.enum(['list', 'take']).default('list'),
  /** Copy the stored backups of servers too; otherwise the report lists them. */
  backups: z.enum(['list', 'copy']).default('list'),
  /** Write to people that have not had an account. */
  invite: z.boolean().default(false),
  /** Give administrators of the source the administrator's role here. */
  grantAdmin: z.boolean().default(false),
  /** Where what has no location is put. */
  locationId: LocationId.optional(),
  /** Steps at a time. */
  concurrency: z.int().min(1).max(16).default(4),
  /** It fails as soon as more steps have failed than this. */
  maxFailures: z.int().min(0).max(1_000_000).optional(),
})
export type MigrationOptions = z.infer<typeof MigrationOptions>

/** What a migration was started with, without its keys. */
const MigrationConfig = z.object({
  scope: MigrationScope,
  nodeMappings: z.record(z.string(), z.string()),
  serverMappings: z.record(z.string(), z.string()),
  dryRun: z.boolean(),
  phases: z.array(MigrationPhase),
  /** The migration whose servers are compared with the source, where that is all it does. */
  verifyOf: z.string().nullable(),
  options: MigrationOptions,
})

const Place = z.object({ type: z.string(), id: z.string().nullable(), name: z.string() })

/** What a step is going to do. */
export const PlanItem = z.object({
  stepId: z.string(),
  phase: MigrationPhase,
  action: z.string(),
  source: Place,
  target: Place.nullable(),
  op: z.enum(['create', 'link', 'update', 'skip', 'conflict']),
  reason: z.string().nullable(),
  /** What the source says of its size; `null`: nothing, or it transfers nothing. */
  bytesEstimate: z.number().nullable(),
})
export type PlanItem = z.infer<typeof PlanItem>

/** What stops a plan until somebody decides it. */
export const PlanConflict = z.object({
  code: z.string(),
  source: Place,
  /** What is in the way. */
  target: Place.nullable(),
  text: z.string(),
  /** The option that decides it, and what it may be set to. */
  policy: z.string().nullable(),
  policyOptions: z.array(z.string()),
})
export type PlanConflict = z.infer<typeof PlanConflict>

/** What the source holds and cannot be brought, and why. */
export const Lost = z.object({ what: z.string(), count: z.int(), why: z.string() })
export type Lost = z.infer<typeof Lost>

/** What a migration is going to do; the same source, target and options give the same `hash`. */
export const MigrationPlan = z.object({
  planVersion: z.literal(1),
  /** Of the source: its kind and address. */
  sourceFp: z.string(),
  createdAt: IsoTime,
  hash: z.string(),
  counts: z.object({ create: z.int(), link: z.int(), update: z.int(), skip: z.int(), conflict: z.int() }),
  /** At most the first 20000. */
  items: z.array(PlanItem),
  conflicts: z.array(PlanConflict),
  lost: z.array(Lost),
  warnings: z.array(z.string()),
  /**
   * `apiRequests` is about how often the source is asked, `minSeconds` what its throttle makes of that (0: it has none that it names). `bytes`
   * is `null` where files come: the source says only of stored backups how large they are.
   */
  estimate: z.object({ apiRequests: z.int(), bytes: z.number().nullable(), minSeconds: z.int() }),
})
export type MigrationPlan = z.infer<typeof MigrationPlan>

/** What has become of everything that the source holds; the totals of each kind add up to what was read. */
export const MigrationReport = z.object({
  /** Nothing failed, and all that was read was imported, merged, or skipped for a reason. */
  clean: z.boolean(),
  totals: z.record(
    z.string(),
    z.object({
      read: z.int(),
      created: z.int(),
      linked: z.int(),
      updated: z.int(),
      unchanged: z.int(),
      skipped: z.int(),
      failed: z.int(),
    }),
  ),
  servers: z.array(
    z.object({
      source: z.object({ id: z.string(), uuid: z.string(), name: z.string(), node: z.string() }),
      target: z.object({ id: z.string(), nodeId: z.string() }).nullable(),
      files: z
        .object({
          count: z.number(),
          bytes: z.number(),
          manifestSha256: z.string(),
          archiveSha1: z.string().nullable(),
          way: z.string(),
        })
        .nullable(),
      warnings: z.array(z.string()),
    }),
  ),
  portChanges: z.array(z.object({ server: z.string(), from: z.string(), to: z.string() })),
  /** Accounts that have no password yet. */
  passwordResets: z.array(z.object({ userId: z.string(), email: z.string() })),
  skipped: z.array(z.object({ type: z.string(), id: z.string(), name: z.string(), reason: z.string() })),
  lost: z.array(Lost),
  /** What was left behind on the source, and how it is removed by hand. */
  sourceLeftovers: z.array(z.string()),
  warnings: z.array(z.string()),
  api: z.object({ requests: z.int(), retries: z.int(), throttledSeconds: z.number() }),
})
export type MigrationReport = z.infer<typeof MigrationReport>

/** One piece of work of a migration. Its id stays the same in all runs from one source. */
export const MigrationStep = z.object({
  id: MigrationStepId,
  stepId: MigrationStepId,
  jobId: MigrationId,
  /** From 1, in the order in which they are carried out where nothing else decides it. */
  seq: z.int(),
  phase: MigrationPhase,
  action: z.string(),
  /** What it brings, for people. */
  name: z.string(),
  sourceType: z.string().nullable(),
  sourceId: z.string().nullable(),
  targetId: z.string().nullable(),
  status: MigrationStepStatus,
  /** Why it was skipped: `unchanged`, `exists`, `policy`, `cancelled`, or `dependency:<step>`. */
  reason: z.string().nullable(),
  retryable: z.boolean(),
  attempt: z.int(),
  error: z.string().nullable(),
  errorCode: z.string().nullable(),
  durationMs: z.number().nullable(),
  /** What it has found out and done. */
  metadata: z.record(z.string(), z.unknown()).nullable(),
  notBefore: IsoTime.nullable(),
  startedAt: IsoTime.nullable(),
  completedAt: IsoTime.nullable(),
})
export type MigrationStep = z.infer<typeof MigrationStep>

/** Servers of another panel on their way to this one. */
export const MigrationJob = z.object({
  id: MigrationId,
  jobId: MigrationId,
  status: MigrationJobStatus,
  /** What has been asked of it while steps run. */
  requested: z.enum(['pause', 'cancel']).nullable(),
  /** Of one that has completed. */
  outcome: MigrationOutcome.nullable(),
  sourceUrl: z.string(),
  sourceKind: SourceKind.nullable(),
  sourceVersion: z.string().nullable(),
  config: MigrationConfig,
  currentPhase: MigrationPhase.nullable(),
  progress: MigrationCounts,
  error: z.string().nullable(),
  errorCode: z.string().nullable(),
  planHash: z.string().nullable(),
  /** Whether the keys of the source are still kept: without them it takes new ones to go on. */
  hasKeys: z.boolean(),
  startedAt: IsoTime.nullable(),
  completedAt: IsoTime.nullable(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
  _count: z.object({ steps: z.int() }),
})
export type MigrationJob = z.infer<typeof MigrationJob>

/** A migration with its plan and report, once there are any, and its first thousand steps. */
export const MigrationDetail = MigrationJob.extend({
  steps: z.array(MigrationStep),
  plan: MigrationPlan.nullable(),
  report: MigrationReport.nullable(),
})
export type MigrationDetail = z.infer<typeof MigrationDetail>

/** A node that servers may be moved to. */
export const TargetNode = z.object({
  id: NodeId,
  name: z.string(),
  hostname: z.string(),
  isOnline: z.boolean(),
  lastSeenAt: IsoTime.nullable(),
  maxMemoryMb: z.int(),
  usedMemoryMb: z.int(),
  serverCount: z.int(),
  locationName: z.string().nullable(),
})
export type TargetNode = z.infer<typeof TargetNode>

/** A node of the source. */
const SourceNode = z.object({
  id: z.string(),
  name: z.string(),
  fqdn: z.string(),
  memory: z.number(),
  serverCount: z.int(),
})

/** A server of the source. What only the client API of the source shows is `null` without its key. */
const SourceServer = z.object({
  id: z.string(),
  uuid: z.string(),
  name: z.string(),
  nodeId: z.string(),
  nodeName: z.string(),
  state: z.string(),
  eggName: z.string(),
  nestName: z.string().nullable(),
  backupSlots: z.int(),
  currentBackups: z.int().nullable(),
  databases: z.int(),
  schedules: z.int().nullable(),
  subusers: z.int(),
  hasAllocation: z.boolean(),
  memory: z.number(),
  disk: z.number(),
  cpu: z.number(),
  suspended: z.boolean(),
})

/** What a source answered; `nodesList` and `serversList` are the same once more, by the names that some clients know. */
export const SourceTest = z.object({
  success: z.boolean(),
  kind: SourceKind.nullable(),
  version: z.string().nullable(),
  stats: z.object({ locations: z.int(), nodes: z.int(), nests: z.int(), users: z.int(), servers: z.int() }).nullable(),
  nodes: z.array(SourceNode),
  nodesList: z.array(SourceNode),
  servers: z.array(SourceServer),
  serversList: z.array(SourceServer),
  /** What the keys may not do that a migration needs. */
  missingRights: z.array(z.string()),
  error: z.string().nullable(),
  errorCode: z.enum(['UNREACHABLE', 'REFUSED', 'NOT_A_PANEL', 'FAILED']).nullable(),
})
export type SourceTest = z.infer<typeof SourceTest>

/** A key of the source: it goes into a header, so it holds no blanks and no control characters. */
const Key = z.string().regex(/^[\x21-\x7e]{8,512}$/, 'must be 8 to 512 visible characters without blanks')
const SourceUrl = WebAddress.max(500).refine(...WITHOUT_SECRETS)
/** Folders of a node, below a root that its agent allows. */
export const DirectorySource = z.object({
  kind: z.literal('directory'),
  nodeId: NodeId,
  path: z.string().min(1).max(4096),
})
export type DirectorySource = z.infer<typeof DirectorySource>

/** How a source is reached: by its address and keys, or as folders of a node. */
const access = {
  url: SourceUrl.optional(),
  key: Key.optional(),
  /** An account's key; without it there are no schedules and backups. One of an administrator serves for both. */
  clientApiKey: Key.optional(),
  /** Do not check the certificates of the source. */
  insecure: z.boolean().default(false),
  /** Instead of `url` and `key`. */
  source: DirectorySource.optional(),
}

const params = { jobId: MigrationId }
const admin = { panel: 'admin.write' } as const

export const listTargetNodes = defineEndpoint({
  id: 'migration.nodes',
  tag: 'Migration',
  summary: 'List the nodes that servers may be moved to, by name',
  method: 'GET',
  path: '/api/admin/migration/catalyst-nodes',
  access: admin,
  response: z.array(TargetNode),
})

export const testMigration = defineEndpoint({
  id: 'migration.test',
  tag: 'Migration',
  summary: 'Look what another panel holds and what its keys may do',
  method: 'POST',
  path: '/api/admin/migration/test',
  access: admin,
  body: z.object(access),
  response: SourceTest,
  errors: ['VALIDATION_ERROR', 'NODE_NOT_FOUND', 'NODE_OFFLINE', 'AGENT_VERSION'],
  audit: { none: 'nothing is changed and nothing kept' },
  long: true,
})

export const startMigration = defineEndpoint({
  id: 'migration.start',
  tag: 'Migration',
  summary: 'Move servers in from another panel',
  method: 'POST',
  path: '/api/admin/migration/start',
  access: admin,
  body: z.object({
    ...access,
    scope: MigrationScope.default('full'),
    nodeMappings: Mapping.default({}),
    serverMappings: Mapping.default({}),
    /** Only make the plan. */
    dryRun: z.boolean().default(false),
    /** What comes along; all if empty. What these need comes too. */
    phases: z.array(MigrationPhase).max(20).default([]),
    options: MigrationOptions.default(() => MigrationOptions.parse({})),
    /** That of the plan that was looked at: another one is refused, and the refusal says what differs. */
    planHash: z
      .string()
      .regex(/^[0-9a-f]{64}$/)
      .optional(),
    allowDrift: z.boolean().default(false),
    /** Bring nothing: compare what this migration has brought with the source. */
    verifyOf: MigrationId.optional(),
    /** Start although another one is paused. */
    allowPaused: z.boolean().default(false),
  }),
  response: z.object({ jobId: MigrationId }),
  status: 202,
  errors: [
    'VALIDATION_ERROR',
    'MIGRATION_NOT_FOUND',
    'MIGRATION_TARGET_NODES_OFFLINE',
    'MIGRATION_TARGET_NODES_NOT_FOUND',
    'MIGRATION_IN_PROGRESS',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { action: 'migration.start' },
})

export const listMigrations = defineEndpoint({
  id: 'migration.list',
  tag: 'Migration',
  summary: 'List migrations, newest first',
  method: 'GET',
  path: '/api/admin/migration',
  access: admin,
  query: pageQuery().extend({ status: MigrationJobStatus.optional() }),
  response: z.array(MigrationJob),
  paged: true,
})

export const getMigration = defineEndpoint({
  id: 'migration.get',
  tag: 'Migration',
  summary: 'Show a migration with its steps, its plan and its report',
  method: 'GET',
  path: '/api/admin/migration/:jobId',
  access: admin,
  params,
  response: MigrationDetail,
  errors: ['MIGRATION_NOT_FOUND'],
})

export const listMigrationSteps = defineEndpoint({
  id: 'migration.steps',
  tag: 'Migration',
  summary: 'List the steps of a migration in their order',
  method: 'GET',
  path: '/api/admin/migration/:jobId/steps',
  access: admin,
  params,
  query: pageQuery(200).extend({ phase: MigrationPhase.optional(), status: MigrationStepStatus.optional() }),
  response: z.array(MigrationStep),
  paged: true,
  errors: ['MIGRATION_NOT_FOUND'],
})

export const pauseMigration = defineEndpoint({
  id: 'migration.pause',
  tag: 'Migration',
  summary: 'Pause a migration when the steps that run have come to a safe place',
  method: 'POST',
  path: '/api/admin/migration/:jobId/pause',
  access: admin,
  params,
  response: MigrationJob,
  errors: ['MIGRATION_NOT_FOUND', 'MIGRATION_INVALID_STATE'],
  audit: { action: 'migration.pause' },
})

export const resumeMigration = defineEndpoint({
  id: 'migration.resume',
  tag: 'Migration',
  summary: 'Go on with a migration that is paused or has failed',
  method: 'POST',
  path: '/api/admin/migration/:jobId/resume',
  access: admin,
  params,
  body: z.object({
    /** New keys of the same source, where those that it had were revoked or are no longer kept. */
    key: Key.optional(),
    clientApiKey: Key.optional(),
    /** Also steps of a paused one that have failed; of a failed one they always are. */
    retryFailed: z.boolean().default(false),
  }),
  response: MigrationJob,
  errors: [
    'VALIDATION_ERROR',
    'MIGRATION_NOT_FOUND',
    'MIGRATION_TARGET_NODES_OFFLINE',
    'MIGRATION_IN_PROGRESS',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { action: 'migration.resume' },
})

export const cancelMigration = defineEndpoint({
  id: 'migration.cancel',
  tag: 'Migration',
  summary: 'Cancel a migration; the source is left as it was found, and what has been imported stays',
  method: 'POST',
  path: '/api/admin/migration/:jobId/cancel',
  access: admin,
  params,
  body: z.object({
    /** Remove what it has created, where nobody has changed it since. */
    rollback: z.boolean().default(false),
  }),
  response: MigrationJob,
  errors: ['MIGRATION_NOT_FOUND', 'MIGRATION_INVALID_STATE'],
  audit: { action: 'migration.cancel' },
})

export const retryMigrationStep = defineEndpoint({
  id: 'migration.retry',
  tag: 'Migration',
  summary: 'Try a failed step of a migration again, with those that were skipped for its sake',
  method: 'POST',
  path: '/api/admin/migration/:jobId/retry/:stepId',
  access: admin,
  params: { ...params, stepId: MigrationStepId },
  response: MigrationStep,
  errors: [
    'MIGRATION_NOT_FOUND',
    'MIGRATION_STEP_NOT_FOUND',
    'MIGRATION_STEP_NOT_RETRYABLE',
    'MIGRATION_IN_PROGRESS',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
  ],
  audit: { action: 'migration.retry' },
})

function isWithoutSecrets(address: string): boolean {
  // What is no address is refused for that.
  if (!URL.canParse(address)) return true
  const { username, password } = new URL(address)
  return username === '' && password === ''
}
