import { z } from 'zod'
import type { Clock } from './time.ts'

/** The kinds of id and the nouns they stand for. An id reads `<prefix>_<26 characters>` (a TypeID: a UUID v7 in base 32). */
export const ID_PREFIXES = {
  acc: 'server grant',
  alc: 'allocation',
  alert: 'alert',
  asg: 'node assignment',
  aud: 'audit record',
  bak: 'backup',
  bpl: 'backup policy',
  bpr: 'run of a backup policy',
  bst: 'backup store',
  cmd: 'command to an agent',
  cha: 'pending sign-in',
  db: 'database',
  dbh: 'database host',
  dlv: 'delivery',
  err: 'system error',
  idn: 'linked identity',
  inv: 'invite',
  ipa: 'address of an IP pool',
  ipp: 'IP pool',
  job: 'job',
  key: 'API key',
  lck: 'lockout',
  loc: 'location',
  nest: 'nest',
  nky: 'node key',
  node: 'node',
  psk: 'passkey',
  pbk: 'backup of the panel',
  role: 'role',
  rule: 'alert rule',
  sch: 'schedule',
  srn: 'run of a schedule',
  ses: 'session',
  sfs: 'SFTP session',
  sft: 'SFTP token',
  sif: 'sign-in flow',
  srv: 'server',
  ssk: 'SSH key',
  step: 'step of a job',
  mig: 'migration',
  mgm: 'entry of the map of migrations',
  mgs: 'step of a migration',
  mtk: 'mailed token',
  tok: 'enrolment token',
  tpl: 'template',
  usr: 'user',
  whk: 'webhook',
} as const

/** A key of {@link ID_PREFIXES}. */
export type IdPrefix = keyof typeof ID_PREFIXES

/** Characters of an id that hold its time: three bits, and five each in the others, make the 48 of a UUID v7. */
const TIME_CHARACTERS = 10

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz'

/** What a path parameter may look like: wider than our own ids, because imported rows keep theirs. */
const PathId = z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'must be an id: 1 to 64 letters, digits, _ or -')

export const AlertId = PathId.brand<'AlertId'>()
export type AlertId = z.infer<typeof AlertId>
export const AlertRuleId = PathId.brand<'AlertRuleId'>()
export type AlertRuleId = z.infer<typeof AlertRuleId>
export const AllocationId = PathId.brand<'AllocationId'>()
export type AllocationId = z.infer<typeof AllocationId>
export const ApiKeyId = PathId.brand<'ApiKeyId'>()
export type ApiKeyId = z.infer<typeof ApiKeyId>
export const AssignmentId = PathId.brand<'AssignmentId'>()
export type AssignmentId = z.infer<typeof AssignmentId>
export const BackupId = PathId.brand<'BackupId'>()
export type BackupId = z.infer<typeof BackupId>
export const BackupPolicyId = PathId.brand<'BackupPolicyId'>()
export type BackupPolicyId = z.infer<typeof BackupPolicyId>
export const BackupPolicyRunId = PathId.brand<'BackupPolicyRunId'>()
export type BackupPolicyRunId = z.infer<typeof BackupPolicyRunId>
export const BackupStoreId = PathId.brand<'BackupStoreId'>()
export type BackupStoreId = z.infer<typeof BackupStoreId>
export const DeliveryId = PathId.brand<'DeliveryId'>()
export type DeliveryId = z.infer<typeof DeliveryId>
export const InviteId = PathId.brand<'InviteId'>()
export type InviteId = z.infer<typeof InviteId>
export const AuditLogId = PathId.brand<'AuditLogId'>()
export type AuditLogId = z.infer<typeof AuditLogId>
export const DatabaseId = PathId.brand<'DatabaseId'>()
export type DatabaseId = z.infer<typeof DatabaseId>
export const DatabaseHostId = PathId.brand<'DatabaseHostId'>()
export type DatabaseHostId = z.infer<typeof DatabaseHostId>
export const IpPoolId = PathId.brand<'IpPoolId'>()
export type IpPoolId = z.infer<typeof IpPoolId>
export const JobId = PathId.brand<'JobId'>()
export type JobId = z.infer<typeof JobId>
export const JobStepId = PathId.brand<'JobStepId'>()
export type JobStepId = z.infer<typeof JobStepId>
export const LocationId = PathId.brand<'LocationId'>()
export type LocationId = z.infer<typeof LocationId>
export const LockoutId = PathId.brand<'LockoutId'>()
export type LockoutId = z.infer<typeof LockoutId>
export const MigrationId = PathId.brand<'MigrationId'>()
export type MigrationId = z.infer<typeof MigrationId>
export const MigrationStepId = PathId.brand<'MigrationStepId'>()
export type MigrationStepId = z.infer<typeof MigrationStepId>
export const NestId = PathId.brand<'NestId'>()
export type NestId = z.infer<typeof NestId>
export const NodeId = PathId.brand<'NodeId'>()
export type NodeId = z.infer<typeof NodeId>
export const PasskeyId = PathId.brand<'PasskeyId'>()
export type PasskeyId = z.infer<typeof PasskeyId>
/** Chosen by people: it stands in the address that an identity provider sends browsers back to. */
export const ProviderId = z
  .string()
  .regex(/^[a-z0-9][a-z0-9_-]{0,63}$/, 'must be 1 to 64 lower-case letters, digits, _ or -')
  .brand<'ProviderId'>()
export type ProviderId = z.infer<typeof ProviderId>
export const RoleId = PathId.brand<'RoleId'>()
export type RoleId = z.infer<typeof RoleId>
export const SelfBackupId = PathId.brand<'SelfBackupId'>()
export type SelfBackupId = z.infer<typeof SelfBackupId>
export const ServerId = PathId.brand<'ServerId'>()
export type ServerId = z.infer<typeof ServerId>
export const SessionId = PathId.brand<'SessionId'>()
export type SessionId = z.infer<typeof SessionId>
export const SftpSessionId = PathId.brand<'SftpSessionId'>()
export type SftpSessionId = z.infer<typeof SftpSessionId>
export const SshKeyId = PathId.brand<'SshKeyId'>()
export type SshKeyId = z.infer<typeof SshKeyId>
export const SystemErrorId = PathId.brand<'SystemErrorId'>()
export type SystemErrorId = z.infer<typeof SystemErrorId>
export const TaskId = PathId.brand<'TaskId'>()
export type TaskId = z.infer<typeof TaskId>
export const TaskRunId = PathId.brand<'TaskRunId'>()
export type TaskRunId = z.infer<typeof TaskRunId>
export const TemplateId = PathId.brand<'TemplateId'>()
export type TemplateId = z.infer<typeof TemplateId>
export const UserId = PathId.brand<'UserId'>()
export type UserId = z.infer<typeof UserId>
export const WebhookId = PathId.brand<'WebhookId'>()
export type WebhookId = z.infer<typeof WebhookId>
export const CommandId = PathId.brand<'CommandId'>()
export type CommandId = z.infer<typeof CommandId>

/** A fresh id; ids made later sort later (by the millisecond). */
export function newId<P extends IdPrefix>(prefix: P, clock: Clock): `${P}_${string}` {
  return `${prefix}_${newIdSuffix(clock)}`
}

/** The bare 26 characters of a fresh id: console epochs, boots, installations. */
export function newIdSuffix(clock: Clock): string {
  return encode(uuidV7Bytes(clock.nowMs()))
}

/** What sorts before all ids of a kind that are made at a time (milliseconds since the epoch) or later, and behind those from before. */
export function beforeIdsOf(prefix: IdPrefix, ms: number): string {
  return `${prefix}_${encode(uuidV7Bytes(ms)).slice(0, TIME_CHARACTERS)}`
}

/** The UUID behind an id of ours, `undefined` when the id is not a TypeID (an imported one). */
export function uuidOf(id: string): string | undefined {
  const suffix = id.slice(id.lastIndexOf('_') + 1)
  if (!/^[0-7][0-9a-hjkmnp-tv-z]{25}$/.test(suffix)) return undefined
  let value = 0n
  for (const char of suffix) value = value * 32n + BigInt(ALPHABET.indexOf(char))
  const hex = value.toString(16).padStart(32, '0')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

/** When an id of ours was made (milliseconds since the epoch), `undefined` for an imported one. */
export function madeAtMs(id: string): number | undefined {
  const uuid = uuidOf(id)
  return uuid === undefined ? undefined : Number.parseInt(uuid.slice(0, 13).replace('-', ''), 16)
}

function uuidV7Bytes(ms: number): Uint8Array {
  const bytes = randomBytes()
  for (let i = 0; i < 6; i++) bytes[i] = Math.floor(ms / 2 ** (8 * (5 - i))) & 0xff
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x70
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  return bytes
}

const pool = new Uint8Array(16 * 256)
let unused = 0

/** Sixteen random bytes, each given once. They are drawn for many ids at a time: a draw costs more than all else about an id. */
function randomBytes(): Uint8Array {
  if (unused === 0) {
    globalThis.crypto.getRandomValues(pool)
    unused = pool.length
  }
  unused -= 16
  return pool.slice(unused, unused + 16)
}

/** 26 digits of five bits each for 128 bits: the first one holds three. */
function encode(bytes: Uint8Array): string {
  let text = ''
  let value = 0
  let bits = 2
  for (const byte of bytes) {
    value = ((value << 8) | byte) & 0xfff
    bits += 8
    while (bits >= 5) {
      bits -= 5
      text += ALPHABET[(value >> bits) & 31] ?? ''
    }
  }
  return text
}
