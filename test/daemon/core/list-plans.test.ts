import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CamelCasePlugin, Kysely, type LogEvent } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Queries } from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import type { Schema } from '../../../src/daemon/db/schema.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { sqliteDialect } from '../../../src/daemon/db/sqlite/dialect.ts'
import { listOwnAudit } from '../../../src/daemon/features/accounts/auth/own-records.ts'
import { listAudit } from '../../../src/daemon/features/operations/audit-log/rows.ts'
import { listServerRows } from '../../../src/daemon/features/servers/servers/rows.ts'
import { listAlertRows } from '../../../src/daemon/features/signals/alerts/alert-rows.ts'
import { listErrors } from '../../../src/daemon/features/signals/system-errors/rows.ts'
import { listDeliveries } from '../../../src/daemon/features/signals/webhooks/delivery-rows.ts'

type List = (q: Queries) => Promise<unknown>

let folder: string
let connection: Connection
let q: Queries
let statements: { sql: string; parameters: readonly unknown[] }[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-plans-'))
  const file = join(folder, 'panel.db')
  await migrate(file)
  connection = await Connection.open(file, 'existing')
  q = new Kysely<Schema>({
    dialect: sqliteDialect({ acquire: async () => connection, release: () => undefined }),
    plugins: [new CamelCasePlugin()],
    log: ({ query }: LogEvent): void => void statements.push({ sql: query.sql, parameters: query.parameters }),
  })
})
afterAll(async () => {
  await connection.close()
  await rm(folder, { recursive: true })
})

/** Page 100 is empty and so neither tells the total nor spares the count. */
const page = { page: 100, limit: 50 }
const servers =
  (filter: object): List =>
  (to) =>
    listServerRows(to, 'all', { ...page, sort: 'createdAt', order: 'desc', ...filter })
const audit =
  (filter: object): List =>
  (to) =>
    listAudit(to, { ...page, ...filter })
const errors =
  (filter: object): List =>
  (to) =>
    listErrors(to, { ...page, ...filter })
const alerts =
  (filter: object): List =>
  (to) =>
    listAlertRows(to, 'all', { ...page, ...filter })
const messages =
  (filter: object): List =>
  (to) =>
    listDeliveries(to, 'whk_1', { ...page, ...filter })

/** What the page is read from, and the rows counted in when that is another one. */
const LISTS: readonly [name: string, list: List, page: string, count?: string][] = [
  ['servers', servers({}), 'server_created', 'any'],
  ['servers by name', servers({ sort: 'name' }), 'server_name', 'any'],
  ['servers by status', servers({ sort: 'status' }), 'server_status', 'any'],
  ['servers of a status', servers({ status: 'running' }), 'server_status'],
  ['servers of a status on a node', servers({ status: 'running', nodeId: 'n' }), 'server_status'],
  ['servers of a node', servers({ nodeId: 'n' }), 'server_node', 'any'],
  ['servers of a node by name', servers({ nodeId: 'n', sort: 'name' }), 'server_node_name', 'any'],
  ['servers of an owner', servers({ ownerId: 'u' }), 'server_owner', 'any'],
  ['servers of a template', servers({ templateId: 't' }), 'server_template', 'any'],
  ['servers of a location', servers({ locationId: 'l' }), 'server_location', 'any'],
  ['the audit log', audit({}), 'audit_log_time', 'any'],
  ['the audit log of a user', audit({ userId: 'u' }), 'audit_log_user'],
  ['the audit log of a user and a resource', audit({ userId: 'u', resource: 'server' }), 'audit_log_user'],
  ['the audit log of an address and a resource', audit({ address: 'a', resource: 'server' }), 'audit_log_address'],
  ['the audit log of a resource', audit({ resource: 'server' }), 'audit_log_resource'],
  ['the audit log of an action', audit({ action: 'start' }), 'audit_log_time', 'any'],
  ['the own audit log', (to) => listOwnAudit(to, { userId: 'u', ...page }), 'audit_log_user'],
  ['errors', errors({}), 'system_error_time', 'any'],
  ['errors of a level', errors({ level: 'error' }), 'system_error_level'],
  ['open errors of a level', errors({ level: 'error', resolved: false }), 'system_error_'],
  ['open errors', errors({ resolved: false }), 'system_error_unresolved'],
  ['alerts', alerts({}), 'alert_time', 'any'],
  ['open alerts', alerts({ resolved: false }), 'alert_unresolved'],
  ['alerts of a type', alerts({ type: 'node_offline' }), 'alert_type'],
  ['alerts of a server', alerts({ serverId: 's' }), 'alert_server'],
  ['messages to a webhook', messages({}), 'delivery_webhook', 'any'],
  ['failed messages to a webhook', messages({ status: 'failed' }), 'delivery_status'],
]

test.each(LISTS)('%s: page and count come from an index in its order, without a row of the table', async (...of) => {
  const [, list, index, counted = index] = of
  statements = []
  await list(q)
  const plans = await Promise.all(
    statements.map(async ({ sql, parameters }) => {
      const steps = await connection.all(`explain query plan ${sql}`, parameters)
      return steps.map(({ detail }) => String(detail))
    }),
  )
  const count = plans.find((steps) => steps.some((step) => step.startsWith('CO-ROUTINE')))
  const pages = plans.find((steps) => steps.some((step) => step.includes(`USING COVERING INDEX ${index}`)))
  expect(pages, JSON.stringify(plans, null, 1)).toBeDefined()
  // An index that has not the whole order makes SQLite sort every row before the page.
  expect(pages?.filter((step) => /TEMP B-TREE FOR (RIGHT PART|LAST)/.test(step))).toEqual([])
  const name = counted === 'any' ? '' : counted
  expect(count?.join('\n'), JSON.stringify(plans, null, 1)).toContain(`USING COVERING INDEX ${name}`)
})
