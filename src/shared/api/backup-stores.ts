import { z } from 'zod'
import { defineEndpoint, defineExactEndpoint, NoData } from '../kernel/contract.ts'
import { BackupStoreId, NodeId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { StoreAnswer, StoreRequest } from '../protocol/backups.ts'

/** `local`: a folder of each node. `s3`: a bucket of Amazon S3, or of anything that speaks as it does. */
export const BackupStoreKind = z.enum(['local', 's3'])
export type BackupStoreKind = z.infer<typeof BackupStoreKind>

const ENDPOINT = /^https?:\/\/(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/
/** Names as S3 has them; some stores of one's own allow upper case and `_` too. */
const BUCKET = /^[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]$/
const PREFIX = /^(?:[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}){0,7})?$/
const REGION = /^[A-Za-z0-9-]{1,64}$/
const FOLDER = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/

/** Where backups lie. The secret is never answered. */
export const BackupStore = z.object({
  id: BackupStoreId,
  name: z.string(),
  kind: BackupStoreKind,
  /** Of `local`: the name of a folder that `agent.yaml` of each node gives a place; `null`: the agent's own. */
  folder: z.string().nullable(),
  /** The fields of `s3`; `null` for others. */
  endpoint: z.string().nullable(),
  region: z.string().nullable(),
  bucket: z.string().nullable(),
  prefix: z.string().nullable(),
  pathStyle: z.boolean().nullable(),
  accessKeyId: z.string().nullable(),
  hasSecret: z.boolean(),
  /** The store that is always there, a folder of each node. */
  isBuiltIn: z.boolean(),
  /** Where backups go of servers for which neither they, their node nor their location says anything else. */
  isDefault: z.boolean(),
  /** Backups of servers and of the panel that lie there, and what it is the default of. */
  backupCount: z.int(),
  defaultOf: z.object({ locations: z.int(), nodes: z.int(), servers: z.int() }),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type BackupStore = z.infer<typeof BackupStore>

/** What the keys of a store begin with. */
export const StorePrefix = z.string().max(500).regex(PREFIX, 'must be names parted by /, without one at the ends')

const StoreBody = z.object({
  name: OneLine.trim().min(1).max(100),
  folder: z.string().regex(FOLDER, 'must be letters, digits, _ and -').nullish(),
  endpoint: z
    .string()
    .max(300)
    .regex(ENDPOINT, 'must be a URL without a path, such as https://s3.example.org')
    .optional(),
  region: z.string().regex(REGION, 'must be a region such as eu-central-1').optional(),
  bucket: z.string().regex(BUCKET, 'must be the name of a bucket').optional(),
  prefix: StorePrefix.optional(),
  pathStyle: z.boolean().optional(),
  accessKeyId: OneLine.min(1).max(256).optional(),
  secretAccessKey: OneLine.min(1).max(1024).optional(),
  isDefault: z.boolean().optional(),
})

const params = { storeId: BackupStoreId }

export const listBackupStores = defineExactEndpoint({
  id: 'backup_stores.list',
  tag: 'Admin',
  summary: 'List backup stores by name',
  method: 'GET',
  path: '/api/backup-stores',
  access: { panel: 'admin.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(BackupStore),
  paged: true,
})

export const getBackupStore = defineExactEndpoint({
  id: 'backup_stores.get',
  tag: 'Admin',
  summary: 'Show a backup store',
  method: 'GET',
  path: '/api/backup-stores/:storeId',
  access: { panel: 'admin.read' },
  params,
  response: BackupStore,
  errors: ['BACKUP_STORE_NOT_FOUND'],
})

export const createBackupStore = defineExactEndpoint({
  id: 'backup_stores.create',
  tag: 'Admin',
  summary: 'Add a backup store',
  method: 'POST',
  path: '/api/backup-stores',
  access: { panel: 'admin.write' },
  /** `s3` needs endpoint, bucket, accessKeyId and secretAccessKey; without a region: us-east-1. Path style where the endpoint is not Amazon's. */
  body: StoreBody.extend({ kind: BackupStoreKind }),
  response: BackupStore,
  status: 201,
  errors: ['BACKUP_STORE_NAME_TAKEN', 'CREDENTIAL_ENCRYPTION_KEY_MISSING', 'SETTING_LOCKED'],
  audit: { action: 'backup_store.create' },
})

export const updateBackupStore = defineExactEndpoint({
  id: 'backup_stores.update',
  tag: 'Admin',
  summary: 'Edit a backup store; what is not named stays',
  method: 'PUT',
  path: '/api/backup-stores/:storeId',
  access: { panel: 'admin.write' },
  params,
  /** The mask as the secret keeps it. Where backups lie (folder, bucket, prefix) cannot change while there are any. */
  body: StoreBody.partial(),
  response: BackupStore,
  errors: [
    'BACKUP_STORE_NOT_FOUND',
    'BACKUP_STORE_NAME_TAKEN',
    'BACKUP_STORE_IN_USE',
    'CREDENTIAL_ENCRYPTION_KEY_MISSING',
    'SETTING_LOCKED',
  ],
  audit: { action: 'backup_store.update' },
})

export const deleteBackupStore = defineExactEndpoint({
  id: 'backup_stores.delete',
  tag: 'Admin',
  summary: 'Remove a backup store that nothing uses',
  method: 'DELETE',
  path: '/api/backup-stores/:storeId',
  access: { panel: 'admin.write' },
  params,
  response: NoData,
  errors: ['BACKUP_STORE_NOT_FOUND', 'BACKUP_STORE_IN_USE'],
  audit: { action: 'backup_store.delete' },
})

/** What a store may be the default of. `panel`: of everything for which nothing nearer says where its backups go. */
export const BackupStoreScope = z.enum(['panel', 'location', 'node', 'server'])
export type BackupStoreScope = z.infer<typeof BackupStoreScope>

/** A location, node or server that says itself where its backups go. */
export const BackupStoreDefault = z.object({
  scope: BackupStoreScope.exclude(['panel']),
  id: z.string(),
  name: z.string(),
  store: z.object({ id: BackupStoreId, name: z.string() }),
})
export type BackupStoreDefault = z.infer<typeof BackupStoreDefault>

export const listBackupStoreDefaults = defineExactEndpoint({
  id: 'backup_stores.defaults',
  tag: 'Admin',
  summary: 'List locations, nodes and servers that have a backup store of their own as default',
  method: 'GET',
  path: '/api/backup-stores/defaults',
  access: { panel: 'admin.read' },
  query: pageQuery(),
  response: z.array(BackupStoreDefault),
  paged: true,
})

export const setBackupStoreDefault = defineExactEndpoint({
  id: 'backup_stores.set_default',
  tag: 'Admin',
  summary: 'Say where new backups of a location, a node, a server, or of everything else go',
  method: 'PUT',
  path: '/api/backup-stores/defaults',
  access: { panel: 'admin.write' },
  /** `storeId` null: as what is above it says. What exists already stays where it is. */
  body: z.object({
    scope: BackupStoreScope,
    id: z.string().max(64).optional(),
    storeId: BackupStoreId.nullable(),
  }),
  response: NoData,
  errors: ['BACKUP_STORE_NOT_FOUND', 'LOCATION_NOT_FOUND', 'NODE_NOT_FOUND', 'SERVER_NOT_FOUND', 'SETTING_LOCKED'],
  audit: { action: 'backup_store.set_default' },
})

/** One thing that a store must be able to do, and how it went. */
export const BackupStoreCheck = z.object({
  /** `panel`: from the daemon; `node`: from the node that was named. */
  from: z.enum(['panel', 'node']),
  name: z.string(),
  ok: z.boolean(),
  latencyMs: z.int().nullable(),
  /** A sentence that says what to do. */
  error: z.string().nullable(),
})
export type BackupStoreCheck = z.infer<typeof BackupStoreCheck>

/** How a test went; a store that cannot be used is an answer, not a failure of the request. */
export const BackupStoreTest = z.object({
  ok: z.boolean(),
  checks: z.array(BackupStoreCheck),
  /** Of a folder of the node that was named. */
  freeBytes: z.int().nullable(),
})
export type BackupStoreTest = z.infer<typeof BackupStoreTest>

export const testBackupStore = defineExactEndpoint({
  id: 'backup_stores.test',
  tag: 'Admin',
  summary: 'Try everything that a backup store must be able to do, and report what is wrong',
  method: 'POST',
  path: '/api/backup-stores/:storeId/test',
  access: { panel: 'admin.write' },
  params,
  /** `nodeId`: from that node as well; a store of the kind `local` can be tried from a node alone. */
  body: z.object({ nodeId: NodeId.optional() }).default({}),
  response: BackupStoreTest,
  errors: ['BACKUP_STORE_NOT_FOUND', 'NODE_NOT_FOUND'],
  audit: { none: 'leaves nothing in the store' },
  long: true,
})

/** What an agent asks of an object store whose credentials the daemon keeps. */
export const askStore = defineEndpoint({
  id: 'stores.ask',
  tag: 'Internal',
  summary: 'Ask an object store for signed requests, at the ticket of a backup',
  method: 'POST',
  path: '/api/agent/stores/:ticket',
  access: 'agent',
  params: { ticket: z.string().max(200) },
  body: StoreRequest,
  lenient: 'newer agents may say more of what they ask for',
  bodyLimit: 4 * 1024 * 1024,
  response: StoreAnswer,
  errors: ['NOT_FOUND', 'PERMISSION_DENIED', 'BACKUP_STORE_FAILED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING'],
  audit: { none: 'is a part of a backup that has its own record' },
})
