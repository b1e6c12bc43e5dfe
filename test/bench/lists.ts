import { CamelCasePlugin, Kysely, type LogEvent } from 'kysely'
import type { Queries } from '../../src/daemon/db/db.ts'
import type { Schema } from '../../src/daemon/db/schema.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { sqliteDialect } from '../../src/daemon/db/sqlite/dialect.ts'
import { listAudit } from '../../src/daemon/features/operations/audit-log/rows.ts'
import { listServerRows } from '../../src/daemon/features/servers/servers/rows.ts'
import { BenchPanel } from './bench-panel.ts'
import { type Figures, type Measurement, median, under } from './figure.ts'
import { load } from './http-load.ts'
import { seedServers } from './seed.ts'
import { COMMON, seedAudit } from './seed-audit.ts'

const FEW = 100
const SERVERS = 10_000
const AUDIT_ROWS = 1_000_000
const MS = 1200
const TIMES = 3

/** Lists that must not depend on how many rows there are; `of` 100 rows each of them is one full page. */
const PAGES: Readonly<Record<string, (panel: BenchPanel) => string>> = {
  'audit.first': () => '/api/admin/audit-logs?limit=50',
  'audit.user': () => `/api/admin/audit-logs?limit=50&userId=${COMMON.userId}`,
  'audit.userAndResource': () => `/api/admin/audit-logs?limit=50&userId=${COMMON.userId}&resource=${COMMON.resource}`,
  'audit.resource': () => `/api/admin/audit-logs?limit=50&resource=${COMMON.resource}`,
  'audit.resourceId': () => `/api/admin/audit-logs?limit=50&resourceId=${COMMON.resourceId}`,
  'audit.address': () => `/api/admin/audit-logs?limit=50&address=${COMMON.ipAddress}`,
  'audit.time': () => `/api/admin/audit-logs?limit=50&from=${new Date(Date.now() - 864e5).toISOString()}`,
  'servers.first': () => '/api/servers?limit=50',
  'servers.byName': () => '/api/servers?limit=50&sort=name&order=asc',
  'servers.byStatus': () => '/api/servers?limit=50&sort=status&order=asc',
  'servers.status': () => '/api/servers?limit=50&status=stopped',
  'servers.node': ({ nodeId }) => `/api/servers?limit=50&nodeId=${nodeId}`,
  'servers.nodeByName': ({ nodeId }) => `/api/servers?limit=50&sort=name&nodeId=${nodeId}`,
}
/** Pages that 100 rows do not have: compared with the first page there. */
const DEEP: Readonly<Record<string, string>> = {
  'audit.first': 'audit.page100',
  'audit.resource': 'audit.resourcePage100',
  'audit.user': 'audit.userPage100',
  'servers.first': 'servers.page100',
  'servers.byName': 'servers.byNamePage100',
  'servers.byStatus': 'servers.byStatusPage100',
  'servers.node': 'servers.nodePage100',
}

/** Lists of 10,000 servers and of a million audit rows against the same lists of 100 rows, and searches against their bare SQL. */
export const lists: Measurement = async (progress) => {
  progress(`${FEW} rows of each`)
  const few = await withRows(FEW, FEW, (panel) => pageTimes(panel, progress))
  progress(`${SERVERS} servers and ${AUDIT_ROWS} audit rows`)
  return withRows(SERVERS, AUDIT_ROWS, async (panel) => {
    const figures: Figures = {}
    for (const [name, ms] of Object.entries(await pageTimes(panel, progress, DEEP))) {
      const base = few[name] ?? few[Object.keys(DEEP).find((first) => DEEP[first] === name) ?? ''] ?? Number.NaN
      figures[name] = under(ms / base, TIMES, `of ${base.toFixed(2)} ms, its own time on ${FEW} rows`)
    }
    return { ...figures, ...(await searches(panel, progress)) }
  })
}

async function withRows<T>(servers: number, rows: number, work: (panel: BenchPanel) => Promise<T>): Promise<T> {
  const panel = await BenchPanel.enter()
  try {
    await seedServers(panel, servers)
    await seedAudit(panel.database, rows, rows === FEW)
    return await work(panel)
  } finally {
    await panel.leave()
  }
}

async function pageTimes(
  panel: BenchPanel,
  progress: (text: string) => void,
  deep: Readonly<Record<string, string>> = {},
): Promise<Record<string, number>> {
  const times: Record<string, number> = {}
  for (const [name, path] of Object.entries(PAGES)) {
    times[name] = await requestMs(panel, path(panel))
    const beyond = deep[name]
    if (beyond !== undefined) times[beyond] = await requestMs(panel, `${path(panel)}&page=100`)
    progress(`${name}: ${times[name]?.toFixed(2)} ms`)
  }
  return times
}

async function requestMs({ url, token }: BenchPanel, path: string): Promise<number> {
  await load({ url, token, path }, 1, 300)
  const rounds: number[] = []
  for (let i = 0; i < 3; i++) rounds.push((await load({ url, token, path }, 1, MS / 3)).p50)
  return median(rounds)
}

/** Searches by a part of a text, which no index answers: rare ones, which look at every row, and common ones. */
async function searches(panel: BenchPanel, progress: (text: string) => void): Promise<Figures> {
  const audit = (action: string) => ({
    path: `/api/admin/audit-logs?limit=50&action=${action}`,
    run: (q: Queries) => listAudit(q, { page: 1, limit: 50, action }),
  })
  const servers = (search: string) => ({
    path: `/api/servers?limit=50&search=${encodeURIComponent(search)}`,
    run: (q: Queries) => listServerRows(q, 'all', { page: 1, limit: 50, sort: 'createdAt', order: 'desc', search }),
  })
  const all = {
    'search.auditRare': audit('restore'),
    'search.auditNone': audit('nothing'),
    'search.auditCommon': audit('server.'),
    'search.serversRare': servers('server 04711'),
    'search.serversCommon': servers('server'),
  }
  const figures: Figures = {}
  for (const [name, { path, run }] of Object.entries(all)) {
    const [whole, bare] = [await requestMs(panel, path), await bareMs(panel.database, run)]
    progress(`${name}: ${whole.toFixed(2)} ms, bare SQL ${bare.toFixed(2)} ms`)
    figures[name] = under(whole / bare, TIMES, `of ${bare.toFixed(2)} ms, the bare SQL`)
  }
  return figures
}

/** The time of the list's own SQL, by prepared statements on a connection of its own. */
async function bareMs(database: string, run: (q: Queries) => Promise<unknown>): Promise<number> {
  const connection = await Connection.open(database, 'existing')
  try {
    const statements: { sql: string; parameters: readonly unknown[] }[] = []
    const recorder = new Kysely<Schema>({
      dialect: sqliteDialect({ acquire: async () => connection, release: () => undefined }),
      plugins: [new CamelCasePlugin()],
      log: ({ query }: LogEvent): void => void statements.push({ sql: query.sql, parameters: query.parameters }),
    })
    await run(recorder)
    const times: number[] = []
    const began = performance.now()
    while (performance.now() - began < MS || times.length < 3) {
      const start = performance.now()
      for (const { sql, parameters } of [...statements]) await connection.all(sql, parameters)
      times.push(performance.now() - start)
    }
    return median(times)
  } finally {
    await connection.close()
  }
}
