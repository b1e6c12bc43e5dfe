import { Connection } from '../../src/daemon/db/sqlite/connection.ts'

/** Tables whose rows are made and deleted by requests, and how the audit log calls what happens to them. */
const KINDS = {
  location: 'location',
  template: 'template',
  node: 'node',
  user: 'user',
  server: 'server',
  api_key: 'api_key',
}
/** The first account comes with the installation. */
const FIRST = "'setup.complete'"

/** What answers have promised. */
export interface Promised {
  /** Ids of requests that were answered with success: each has its audit row. */
  readonly answered: readonly string[]
  /** Ids with their tables. */
  readonly present: ReadonlyMap<string, string>
  readonly gone: ReadonlyMap<string, string>
}

/**
 * What is wrong with a database, in words; nothing when all is well: SQLite's own checks, promises that were not kept, and
 * writes of which only a part is there (the change, its audit row, its event). Reads one state, also of a daemon at work.
 */
export async function faultsOf(file: string, promised: Promised): Promise<string[]> {
  const connection = await Connection.open(file, 'existing')
  try {
    await connection.exec('pragma busy_timeout = 5000; begin')
    return [
      ...(await soundness(connection)),
      ...(await lost(connection, promised)),
      ...(await halves(connection)),
      ...(await halfOrders(connection)),
      ...(await halfEdits(connection)),
    ]
  } finally {
    await connection.close()
  }
}

async function soundness(connection: Connection): Promise<string[]> {
  const check = await connection.all('pragma integrity_check')
  const broken = await connection.all('pragma foreign_key_check')
  return [
    ...check.map((row) => String(row['integrity_check'])).filter((text) => text !== 'ok'),
    ...broken.map((row) => `broken reference: ${JSON.stringify(row)}`),
  ]
}

async function lost(connection: Connection, { answered, present, gone }: Promised): Promise<string[]> {
  const audited = await ids(connection, 'select request_id as id from audit_log')
  const faults = answered.filter((id) => !audited.has(id)).map((id) => `answered, but not in the audit log: ${id}`)
  for (const table of Object.keys(KINDS)) {
    const there = await ids(connection, `select id from ${table}`)
    const of = (promises: ReadonlyMap<string, string>) => [...promises].filter(([, name]) => name === table)
    for (const [id] of of(present)) if (!there.has(id)) faults.push(`created by an answer, but not there: ${id}`)
    for (const [id] of of(gone)) if (there.has(id)) faults.push(`deleted by an answer, but there: ${id}`)
  }
  return faults
}

/** Every change has its audit row and the other way round; every audit row has one event. */
async function halves(connection: Connection): Promise<string[]> {
  const reported = `select json_extract(data, '$.id') as id from event where type = 'audit_log_created'`
  const queries: [string, string][] = [
    ['audit row without its event', `select id from audit_log where id not in (${reported})`],
    ['event without its audit row', `${reported} except select id from audit_log`],
    ['audit row with two events', `select id from (${reported}) group by id having count(*) > 1`],
  ]
  for (const [table, name] of Object.entries(KINDS)) {
    const audited = (what: string) =>
      `select resource_id from audit_log where action in ('${name}.${what}', ${FIRST}) and resource_id is not null`
    const [created, deleted] = [audited('create'), `select resource_id from audit_log where action = '${name}.delete'`]
    const first = table === 'user' ? ' and id not in (select min(id) from user)' : ''
    queries.push(
      [
        `${table} without the audit row of its creation`,
        `select id from ${table} where id not in (${created})${first}`,
      ],
      [`${table} that is there in spite of its deletion`, `select id from ${table} where id in (${deleted})`],
      [
        `${table} that is only in the audit log`,
        `select resource_id as id from audit_log where action = '${name}.create'
           and resource_id not in (select id from ${table}) and resource_id not in (${deleted})`,
      ],
    )
  }
  return await findings(connection, queries)
}

/** An accepted order is the audit row, the command for the node and the server's generation. */
async function halfOrders(connection: Connection): Promise<string[]> {
  const ordered = `select json_extract(details, '$.commandId') from audit_log where action = 'server.power'`
  const reported = `select json_extract(data, '$.commandId') as id from event where type = 'server_command_done'`
  return await findings(connection, [
    ['order without its audit row', `select id from command where op = 'restart' and id not in (${ordered})`],
    [
      'audit row without its order',
      `select id from audit_log where action = 'server.power'
         and json_extract(details, '$.commandId') not in (select id from command)`,
    ],
    [
      'order of a generation that its server does not have',
      'select c.id from command c join server s on s.id = c.server_id where c.generation > s.generation',
    ],
    [
      'two orders of one generation',
      'select server_id as id from command group by server_id, generation having count(*) > 1',
    ],
    [
      'order whose end is stored and not told',
      `select id from command where op = 'restart' and ended_at is not null and id not in (${reported})`,
    ],
    ['order whose end is told twice', `select id from (${reported}) group by id having count(*) > 1`],
    [
      'order whose end is told and not stored',
      `select id from command where op = 'restart' and ended_at is null and id in (${reported})`,
    ],
  ])
}

/** The orders that have no end yet. */
export async function openOrders(file: string): Promise<string[]> {
  const connection = await Connection.open(file, 'existing')
  try {
    await connection.exec('pragma busy_timeout = 5000')
    return [...(await ids(connection, "select id from command where op = 'restart' and ended_at is null"))]
  } finally {
    await connection.close()
  }
}

/** What the last audited edit of a location says is what its row says. */
async function halfEdits(connection: Connection): Promise<string[]> {
  const last = `select max(id) from audit_log where action = 'location.update' group by resource_id`
  return await findings(connection, [
    [
      'edit of which one half is there',
      `select l.id from location l left join audit_log a on a.resource_id = l.id and a.id in (${last})
         where l.description is not json_extract(a.details, '$.description.after')`,
    ],
  ])
}

async function findings(connection: Connection, queries: readonly [string, string][]): Promise<string[]> {
  const found: string[] = []
  for (const [what, sql] of queries) for (const id of await ids(connection, sql)) found.push(`${what}: ${id}`)
  return found
}

async function ids(connection: Connection, sql: string): Promise<Set<string>> {
  return new Set((await connection.all(sql)).map(({ id }) => String(id)))
}
