import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import type { BenchPanel } from './bench-panel.ts'

/** How servers are seeded where the usual is not meant. */
interface Seeding {
  /** Spread evenly over these nodes, one after the other, instead of on the panel's own. */
  readonly nodeIds?: readonly string[]
  /** As if their agents had reported them running at generation 1. */
  readonly running?: true
}

/** Writes `count` stopped servers of a template into the database of a running daemon, as if they had been created. */
export async function seedServers(
  panel: BenchPanel,
  count: number,
  { nodeIds = [panel.nodeId], running }: Seeding = {},
): Promise<(index: number) => string> {
  const templateId = await panel.makeTemplate(template)
  const environment = JSON.stringify(Object.fromEntries(template.variables.map(({ name }) => [name, 'a value'])))
  const stamp = new Date().toISOString()
  const numbers = 'with recursive n (i) as (select 0 union all select i + 1 from n where i + 1 < ?)'
  const connection = await Connection.open(panel.database, 'existing')
  try {
    await connection.exec('pragma busy_timeout = 5000; pragma foreign_keys = on; begin immediate')
    await connection.run(
      `${numbers} insert into server (id, uuid, name, template_id, node_id, location_id, owner_id, allocation_id, runtime,
         memory_mb, cpu_cores, disk_mb, environment, restart_policy, max_crash_count, installed, created_at, updated_at)
       select printf('srv_bench%021d', i), printf('00000000-0000-7000-8000-%012d', i), printf('server %05d', i), ?, ?, ?,
         (select id from user limit 1), printf('alc_bench%021d', i), 'process', 1024, 1, 4096, ?, 'on-failure', 5, 1, ?, ?
       from n`,
      [count, templateId, panel.nodeId, panel.locationId, environment, stamp, stamp],
    )
    await connection.run(
      `${numbers} insert into allocation (id, node_id, server_id, ip, port, created_at, updated_at)
       select printf('alc_bench%021d', i), ?, printf('srv_bench%021d', i), '127.0.0.1', 30000 + i, ?, ? from n`,
      [count, panel.nodeId, stamp, stamp],
    )
    const node = "json_extract(?, printf('$[%d]', cast(substr(id, 10) as integer) % ?))"
    const nodes = JSON.stringify(nodeIds)
    if (nodeIds.length > 1) {
      await connection.run(`update server set node_id = ${node}`, [nodes, nodeIds.length])
      await connection.run('update allocation set node_id = (select node_id from server where id = server_id)')
    }
    if (running === true) {
      await connection.run(
        `update server set desired = 'running', generation = 1, power = 'running', observed_generation = 1,
           observed_at = ?, started_at = ?, pid = 4242`,
        [stamp, stamp],
      )
    }
    await connection.exec('commit')
  } finally {
    await connection.close()
  }
  return seededId
}

/** The id of a seeded server. */
export function seededId(index: number): string {
  return `srv_bench${String(index).padStart(21, '0')}`
}

/** A spread of numbers below `count` that is the same in every run. */
export function scattered(index: number, count: number): number {
  return (Math.imul(index + 1, 2_654_435_761) >>> 0) % count
}

const VARIABLES = ['VERSION', 'MOTD', 'MAX_PLAYERS', 'WORLD', 'DIFFICULTY', 'SEED', 'ADMIN_PASSWORD', 'EXTRA_FLAGS']

/** As large as those of common games: eight variables and an installation script of some 2 KiB. */
const template = {
  name: 'Bench game',
  description: 'A game of the usual size',
  startup: './game --port {{SERVER_PORT}} --version {{VERSION}} --motd "{{MOTD}}" {{EXTRA_FLAGS}}',
  stopCommand: 'stop',
  images: ['8', '17', '21'].map((version) => ({
    name: `runtime-${version}`,
    image: `registry.example/runtime:${version}`,
  })),
  variables: VARIABLES.map((name) => ({
    name,
    description: `What the game takes as ${name}, as its manual explains it to people`,
    default: '',
    required: false,
    input: 'text' as const,
    rules: ['nullable', 'string', 'max:64'],
    userViewable: true,
    userEditable: true,
    secret: name.endsWith('PASSWORD'),
  })),
  installScript: `set -eu\n${'echo "one more line of an installation script that fetches and unpacks"\n'.repeat(28)}`,
}

/** In a database that no daemon uses now, all servers were observed long ago, as under one that has run for hours. */
export async function observedLongAgo(panel: BenchPanel): Promise<void> {
  const connection = await Connection.open(panel.database, 'existing')
  try {
    await connection.run("update server set observed_at = '2026-01-01T00:00:00.000Z' where observed_at is not null", [])
  } finally {
    await connection.close()
  }
}
