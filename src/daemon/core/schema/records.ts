import type { Generated } from 'kysely'
import type { IsoTime } from '../../../shared/time.ts'
import type { Json } from './columns.ts'

interface EventTable {
  id: Generated<number>
  type: string
  serverId: string | null
  data: Json
  createdAt: IsoTime
}

interface AuditLogTable {
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
  setting: SettingTable
  idempotency: IdempotencyTable
}
