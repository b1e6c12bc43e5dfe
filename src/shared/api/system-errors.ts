import { z } from 'zod'
import { defineEndpoint, FileAnswer, NoData } from '../kernel/contract.ts'
import { ExportFormat } from '../kernel/export.ts'
import { SystemErrorId } from '../kernel/ids.ts'
import { pageQuery, QueryBoolean } from '../kernel/page.ts'
import { SystemError, SystemErrorLevel } from '../kernel/system-error.ts'
import { Instant } from '../kernel/time.ts'

const params = { errorId: SystemErrorId }

/** Which errors are meant; all of those given must fit. `from` and `to` are about the last time that it happened. */
const filter = {
  level: SystemErrorLevel.optional(),
  /** Contained in the component's name. */
  component: z.string().max(200).optional(),
  resolved: QueryBoolean.optional(),
  from: Instant.optional(),
  to: Instant.optional(),
  /** Contained in the message, or the beginning of the id. */
  search: z.string().max(200).optional(),
  requestId: z.string().max(100).optional(),
} as const

export const listSystemErrors = defineEndpoint({
  id: 'system_errors.list',
  tag: 'Admin',
  summary: 'List system errors, the last that happened first',
  method: 'GET',
  path: '/api/admin/system-errors',
  access: { panel: 'admin.read' },
  query: pageQuery(200).extend(filter),
  response: z.array(SystemError),
  paged: true,
})

export const getSystemError = defineEndpoint({
  id: 'system_errors.get',
  tag: 'Admin',
  summary: 'Show a system error with its stack',
  method: 'GET',
  path: '/api/admin/system-errors/:errorId',
  access: { panel: 'admin.read' },
  params,
  response: SystemError,
  errors: ['ADMIN_SYSTEM_ERROR_NOT_FOUND'],
})

export const exportSystemErrors = defineEndpoint({
  id: 'system_errors.export',
  tag: 'Admin',
  summary: 'Export system errors as CSV, JSON lines or JSON',
  method: 'GET',
  path: '/api/admin/system-errors/export',
  access: { panel: 'admin.read' },
  query: z.object({ ...filter, format: ExportFormat.default('csv') }),
  response: FileAnswer,
  answers: 'file',
})

export const resolveSystemError = defineEndpoint({
  id: 'system_errors.resolve',
  tag: 'Admin',
  summary: 'Mark a system error as resolved; when it happens again it is reported anew',
  method: 'POST',
  path: '/api/admin/system-errors/:errorId/resolve',
  access: { panel: 'admin.write' },
  params,
  body: z.object({ note: z.string().max(1000).optional() }).prefault({}),
  response: SystemError,
  errors: ['ADMIN_SYSTEM_ERROR_NOT_FOUND'],
  audit: { action: 'system_error.resolve', resource: 'system' },
})

export const resolveSystemErrors = defineEndpoint({
  id: 'system_errors.resolve_all',
  tag: 'Admin',
  summary: 'Mark every open system error of a selection as resolved',
  method: 'POST',
  path: '/api/admin/system-errors/resolve-all',
  access: { panel: 'admin.write' },
  /** Without any field: all that are open. */
  body: z
    .object({
      level: SystemErrorLevel.optional(),
      component: z.string().max(200).optional(),
      from: Instant.optional(),
      to: Instant.optional(),
      ids: z.array(SystemErrorId).min(1).max(500).optional(),
      note: z.string().max(1000).optional(),
    })
    .prefault({}),
  response: z.object({ resolved: z.int() }),
  audit: { action: 'system_error.resolve', resource: 'system' },
})

export const reportSystemError = defineEndpoint({
  id: 'system_errors.report',
  tag: 'Settings',
  summary: 'Report an error of a client, 30 a minute',
  method: 'POST',
  path: '/api/system-errors/report',
  access: { panel: 'system_error.report' },
  body: z.object({
    level: SystemErrorLevel.default('error'),
    component: z.string().min(1).max(180),
    message: z.string().min(1).max(2000),
    stack: z.string().max(10_000).optional(),
    metadata: z.record(z.string(), z.unknown()).optional(),
  }),
  response: NoData,
  status: 202,
  audit: { none: 'it changes nothing; what is reported is a system error with its reporter' },
})
