import { newId } from '../../shared/kernel/ids.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import type { Bus } from '../core/bus.ts'
import { maskSecrets } from '../core/masking.ts'
import type { Tx } from '../db/db.ts'
import { createAuditChain } from './audit-chain.ts'
import type { Caller, Origin } from './caller.ts'

/** What was done to what. `details` must not carry secrets; names that look like secrets are masked all the same. */
export interface AuditEntry {
  readonly action: string
  readonly resource: string
  readonly resourceId?: string | undefined
  readonly details?: Readonly<Record<string, unknown>> | undefined
}

/**
 * Who did it; without caller and user the daemon itself. A sign-in has no caller yet: it names its user. A job names on whose
 * behalf it runs; its row says in `details.job` which job it was and what has started it.
 */
export interface Actor {
  readonly caller: Caller | undefined
  readonly origin: Origin | null
  readonly userId?: string
  readonly job?: { readonly id: string; readonly cause: string }
}

/** The audit log: one row per change, in the transaction of the change, each chained to the one before. */
export interface Audit {
  record(tx: Tx, actor: Actor, entry: AuditEntry): Promise<void>
}

/** The audit log over its table; each row is announced as `audit_log_created`. */
export function createAudit(bus: Bus, clock: Clock): Audit {
  const chain = createAuditChain()
  return {
    record: async (tx, { caller, origin, userId, job }, entry) => {
      const details = job === undefined ? entry.details : { ...entry.details, job }
      const row = {
        id: newId('aud', clock),
        userId: caller?.userId ?? userId ?? null,
        apiKeyId: caller?.kind === 'apiKey' ? caller.credentialId : null,
        action: entry.action,
        resource: entry.resource,
        resourceId: entry.resourceId ?? null,
        details: details === undefined ? null : JSON.stringify(maskSecrets(details)),
        ipAddress: origin?.ip ?? null,
        userAgent: origin?.userAgent ?? null,
        requestId: origin?.requestId ?? null,
        createdAt: tx.now,
      }
      tx.collect(chain, row)
      const { id, action, resource, resourceId } = row
      await bus.append(tx, {
        type: 'audit_log_created',
        data: { id, action, userId: row.userId, resource, resourceId },
      })
    },
  }
}

/** The changed fields with their values before and after, `undefined` when nothing changed. */
export function changes(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): Record<string, { before: unknown; after: unknown }> | undefined {
  const changed = Object.keys(after).filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]))
  if (changed.length === 0) return undefined
  return Object.fromEntries(changed.map((key) => [key, { before: before[key] ?? null, after: after[key] ?? null }]))
}
