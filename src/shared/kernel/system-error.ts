import { z } from 'zod'
import { IsoTime } from './time.ts'

/** How bad it is: `critical` counts as worse than `error`. */
export const SystemErrorLevel = z.enum(['warn', 'error', 'critical'])
export type SystemErrorLevel = z.infer<typeof SystemErrorLevel>

/**
 * One bug or failure of the installation, however often it has happened: `count` times between `firstSeenAt` and
 * `lastSeenAt`. Message, stack, metadata, request and user are those of its last time. Secrets are masked.
 */
export const SystemError = z.object({
  id: z.string(),
  level: SystemErrorLevel,
  component: z.string(),
  message: z.string(),
  stack: z.string().nullable(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  requestId: z.string().nullable(),
  userId: z.string().nullable(),
  count: z.int(),
  status: z.enum(['open', 'resolved']),
  resolved: z.boolean(),
  resolvedAt: IsoTime.nullable(),
  resolvedBy: z.string().nullable(),
  /** What whoever resolved it has written down. */
  note: z.string().nullable(),
  createdAt: IsoTime,
  firstSeenAt: IsoTime,
  lastSeenAt: IsoTime,
})
export type SystemError = z.infer<typeof SystemError>
