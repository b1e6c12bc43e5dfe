import { z } from 'zod'
import { defineEndpoint, FileAnswer } from '../kernel/contract.ts'
import { ExportFormat } from '../kernel/export.ts'
import { AuditLogId } from '../kernel/ids.ts'
import { AuditLog, auditFilter } from './admin.ts'

export const getAuditLog = defineEndpoint({
  id: 'audit.get',
  tag: 'Admin',
  summary: 'Show one row of the audit log',
  method: 'GET',
  path: '/api/admin/audit-logs/:auditLogId',
  access: { panel: 'admin.read' },
  params: { auditLogId: AuditLogId },
  response: AuditLog,
  errors: ['NOT_FOUND'],
})

export const exportAuditLogs = defineEndpoint({
  id: 'audit.export',
  tag: 'Admin',
  summary: 'Export the audit log, newest first, as CSV, JSON lines or JSON',
  method: 'GET',
  path: '/api/admin/audit-logs/export',
  access: { panel: 'admin.write' },
  query: z.object({ ...auditFilter, format: ExportFormat.default('csv') }),
  response: FileAnswer,
  answers: 'file',
})

/** Where the chain is broken, in the order of the log. */
export const AuditProblem = z.object({
  /**
   * `altered`: this row, or the hash of the one before it, is not what was written; `missing`: rows before this one are gone;
   * `truncated`: rows behind the last one are gone; `replaced`: the row that was named does not have the hash that was named.
   */
  kind: z.enum(['altered', 'missing', 'truncated', 'replaced']),
  seq: z.int(),
  id: z.string().nullable(),
  message: z.string(),
})
export type AuditProblem = z.infer<typeof AuditProblem>

/** What a walk along the chain has found. */
export const AuditVerification = z.object({
  intact: z.boolean(),
  /** Rows that this call has looked at. */
  checked: z.int(),
  /** The last row that retention has removed; the first that is kept comes behind it. */
  trimmedTo: z.int(),
  /** The last row that was looked at and its hash: kept elsewhere, it proves later that nothing before it was changed. */
  lastSeq: z.int().nullable(),
  lastHash: z.string().nullable(),
  /** Where the next call goes on; `null` at the end of the log. */
  next: z.int().nullable(),
  /** What became of the row that `seq` and `hash` named. */
  witness: z.enum(['matches', 'differs', 'trimmed', 'absent']).nullable(),
  problem: AuditProblem.nullable(),
})
export type AuditVerification = z.infer<typeof AuditVerification>

export const verifyAuditLogs = defineEndpoint({
  id: 'audit.verify',
  tag: 'Admin',
  summary: 'Check that no row of the audit log was altered or removed',
  method: 'GET',
  path: '/api/admin/audit-logs/verify',
  access: { panel: 'admin.read' },
  query: z
    .object({
      /** Go on behind this row; from the beginning when absent. */
      after: z.coerce.number().int().min(0).optional(),
      /** Look at no more than this many rows; all when absent. */
      limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
      /** A row and the hash that it had when somebody wrote it down (`lastSeq`, `lastHash`). */
      seq: z.coerce.number().int().min(1).optional(),
      hash: z
        .string()
        .regex(/^[0-9a-f]{64}$/, 'must be 64 hexadecimal digits')
        .optional(),
    })
    .refine(({ seq, hash }) => (seq === undefined) === (hash === undefined), {
      path: ['hash'],
      message: 'seq and hash belong together',
    }),
  response: AuditVerification,
})
