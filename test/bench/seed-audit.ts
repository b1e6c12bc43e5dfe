import { type AuditContent, auditHash } from '../../src/daemon/access/audit-chain.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { isoTime } from '../../src/shared/kernel/time.ts'

/** Rows of one statement. */
const BATCH = 500
const COLUMNS = 12
const ACTIONS = ['server.start', 'server.stop', 'server.update', 'auth.login', 'user.update', 'location.create']
/** Every so many rows one stands out, by action, user, resource and address. */
export const RARE_EVERY = 1000
export const RARE = {
  action: 'backup.restore',
  userId: 'usr_rare',
  resource: 'backup',
  address: '198.51.100.7',
} as const

/** What every fiftieth, ten-thousandth and so on has in common. */
export const COMMON = {
  userId: 'usr_bench1',
  resource: 'server',
  resourceId: `srv_bench${'1'.padStart(21, '0')}`,
  ipAddress: '192.0.2.1',
} as const

/**
 * Appends `count` rows, one for each of the last `count` seconds, to the audit log in a database that a daemon has open,
 * chained as if the daemon had written them. `uniform` ones have the same user, thing and address.
 */
export async function seedAudit(database: string, count: number, uniform = false): Promise<void> {
  const began = Date.now() - count * 1000
  const connection = await Connection.open(database, 'existing')
  try {
    await connection.exec('pragma busy_timeout = 60000; pragma synchronous = off')
    for (let from = 0; from < count; from += 50_000) {
      await connection.exec('begin immediate')
      await append(connection, { from, to: Math.min(from + 50_000, count), began, uniform })
      await connection.exec('commit')
    }
    await connection.exec('pragma wal_checkpoint(truncate)')
  } finally {
    await connection.close()
  }
}

interface Part {
  readonly from: number
  readonly to: number
  readonly began: number
  readonly uniform: boolean
}

async function append(connection: Connection, { from, to, began, uniform }: Part): Promise<void> {
  const [last] = await connection.all('select hash from audit_log order by seq desc limit 1')
  let hash = String(last?.['hash'] ?? '0'.repeat(64))
  for (let first = from; first < to; first += BATCH) {
    const rows = Array.from({ length: Math.min(BATCH, to - first) }, (_, i) => {
      const row = rowOf(first + i, began)
      return uniform ? { ...row, ...COMMON } : row
    })
    const values: unknown[] = []
    for (const row of rows) {
      hash = auditHash(hash, row)
      values.push(
        row.id, row.userId, row.apiKeyId, row.action, row.resource, row.resourceId, row.details, row.ipAddress, row.userAgent,
        row.requestId, row.createdAt, hash,
      ) // biome-ignore format: a list
    }
    const places = rows.map(() => `(${Array.from({ length: COLUMNS }, () => '?').join(',')})`).join(',')
    await connection.run(
      `insert into audit_log (id, user_id, api_key_id, action, resource, resource_id, details, ip_address, user_agent,
         request_id, created_at, hash) values ${places}`,
      values,
    )
  }
}

function rowOf(i: number, began: number): AuditContent {
  const rare = i % RARE_EVERY === 0
  const number = String(i).padStart(20, '0')
  return {
    id: `aud_bench0${number}`,
    userId: rare ? RARE.userId : `usr_bench${i % 50}`,
    apiKeyId: i % 3 === 0 ? `key_bench${i % 20}` : null,
    action: rare ? RARE.action : (ACTIONS[i % ACTIONS.length] ?? ''),
    resource: rare ? RARE.resource : 'server',
    resourceId: `srv_bench${String(i % 10_000).padStart(21, '0')}`,
    details: JSON.stringify({
      name: { before: `old ${i}`, after: `new, "${i}"` },
      allocatedMemoryMb: { before: 1, after: i },
    }),
    ipAddress: rare ? RARE.address : `192.0.2.${i % 250}`,
    userAgent: 'panel-cli/0.1.0 node/20.20.2',
    requestId: `req${number}`,
    createdAt: isoTime(began + i * 1000),
  }
}
