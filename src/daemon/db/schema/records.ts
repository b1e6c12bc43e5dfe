import type { Generated } from 'kysely'
import type { IsoTime } from '../../../shared/kernel/time.ts'
import type { Json } from './columns.ts'

interface EventTable {
  id: Generated<number>
  type: string
  serverId: string | null
  data: Json
  createdAt: IsoTime
}

interface AuditLogTable {
  /** The order of the chain; numbers are never used twice and have no gaps. */
  seq: Generated<number>
  id: string
  userId: string | null
  apiKeyId: string | null
  action: string
  resource: string
  resourceId: string | null
  details: Json | null
  ipAddress: string | null
  userAgent: string | null
  requestId: string | null
  createdAt: IsoTime
  /** SHA-256 over the hash of the row before and this row's content; `null` for rows from before the chain. */
  hash: string | null
}

/** One row: where the chain begins. */
interface AuditAnchorTable {
  id: number
  /** The last row that retention has removed, 0 when none. */
  seq: number
  /** The hash of that row, which the first kept row builds on. */
  hash: string
  /** Rows up to this one may still have no hash; `null` when all have. */
  unchainedTo: number | null
}

interface SystemErrorTable {
  id: string
  /** The same for repetitions of one bug; at most one open row has it. */
  fingerprint: string
  level: string
  component: string
  message: string
  stack: string | null
  metadata: Json | null
  requestId: string | null
  userId: string | null
  count: number
  firstSeenAt: IsoTime
  lastSeenAt: IsoTime
  resolvedAt: IsoTime | null
  resolvedBy: string | null
  resolutionNote: string | null
}

interface SettingTable {
  key: string
  value: Json
  updatedAt: IsoTime
}

interface IdempotencyTable {
  /** SHA-256 over caller, route and key. */
  id: string
  requestHash: string
  /** `null` until the answer is known. Sealed with a key that only the caller has. */
  response: string | null
  status: number | null
  createdAt: IsoTime
}

/** What is written down about the rest. */
export interface RecordsTables {
  event: EventTable
  auditLog: AuditLogTable
  auditAnchor: AuditAnchorTable
  setting: SettingTable
  systemError: SystemErrorTable
  idempotency: IdempotencyTable
}
