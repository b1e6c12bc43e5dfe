import { join } from 'node:path'
import type { BareOptions } from './bare-server.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeast, type Figures, type Measurement, median, shown, spread } from './figure.ts'
import { bodyBytes, load, type Target } from './http-load.ts'
import { Helper } from './processes.ts'
import { seedServers } from './seed.ts'

const ROUNDS = 5
const ROUND_MS = 600
const WARM_MS = 1000
const CONNECTIONS = 16
/** The daemon does at least half of what the bare route does. */
const RATIO = 0.5

/** Reading servers, of 1,000 and of 10,000, against bare routes: the same SQL by rows, by JSON texts, and the same bytes. */
export const reads: Measurement = async (progress) => ({
  ...(await readsOf(1000, progress)),
  ...(await readsOf(10_000, progress)),
})

async function readsOf(count: number, progress: (text: string) => void): Promise<Figures> {
  progress(`${count} servers`)
  const panel = await BenchPanel.enter()
  const bare = new Helper('bare-server')
  try {
    const serverId = (await seedServers(panel, count))(Math.floor(count / 2))
    const [listPath, getPath] = ['/api/servers?limit=50', `/api/servers/${serverId}`]
    const answer = async (path: string): Promise<string> =>
      (await fetch(panel.url + path, { headers: { authorization: `Bearer ${panel.token}` } })).text()
    const options: BareOptions = {
      database: panel.database,
      scratch: join(panel.home, 'scratch.db'),
      serverId,
      answers: { list: await answer(listPath), get: await answer(getPath) },
    }
    const { url } = await bare.ask<{ url: string }>(options)
    const daemon = { url: panel.url, token: panel.token }
    const list = {
      daemon: { ...daemon, path: listPath },
      sql: { url, path: '/list' },
      json: { url, path: '/list-json' },
      bytes: { url, path: '/bytes/list' },
    }
    const get = {
      daemon: { ...daemon, path: getPath },
      sql: { url, path: '/get' },
      json: { url, path: '/get-json' },
      bytes: { url, path: '/bytes/get' },
    }
    return {
      ...(await compare(`list50of${count}`, list, progress)),
      ...(await compare(`oneOf${count}`, get, progress)),
    }
  } finally {
    await bare.end()
    await panel.leave()
  }
}

async function compare(
  name: string,
  targets: Readonly<Record<'daemon' | 'sql' | 'json' | 'bytes', Target>>,
  progress: (text: string) => void,
): Promise<Figures> {
  const rounds: Record<keyof typeof targets, number[]> = { daemon: [], sql: [], json: [], bytes: [] }
  const latencies: number[] = []
  const each = ['daemon', 'sql', 'json', 'bytes'] as const
  for (const who of each) await load(targets[who], CONNECTIONS, WARM_MS)
  for (let round = 0; round < ROUNDS; round++) {
    for (const who of each) {
      const { perSecond, p99 } = await load(targets[who], CONNECTIONS, ROUND_MS)
      rounds[who].push(perSecond)
      if (who === 'daemon') latencies.push(p99)
    }
  }
  const [daemon, sql] = [median(rounds.daemon), median(rounds.sql)]
  const [json, bytes] = [median(rounds.json), median(rounds.bytes)]
  const ratios = rounds.daemon.map((value, round) => value / (rounds.sql[round] ?? Number.NaN))
  progress(`${name}: ${daemon.toFixed(0)}/s, bare ${sql.toFixed(0)}/s, ratio ${median(ratios).toFixed(2)}`)
  return {
    [`${name}.ratioToSameSql`]: atLeast(median(ratios), RATIO, 'of the bare route'),
    [`${name}.ratioToSameSqlAsJson`]: shown(daemon / json, 'of the bare route'),
    [`${name}.ratioToSameBytes`]: shown(daemon / bytes, 'of the bare route'),
    [`${name}.perSecond`]: shown(daemon, 'requests/s'),
    [`${name}.bareSqlPerSecond`]: shown(sql, 'requests/s'),
    [`${name}.bareJsonPerSecond`]: shown(json, 'requests/s'),
    [`${name}.bareBytesPerSecond`]: shown(bytes, 'requests/s'),
    [`${name}.p99`]: shown(median(latencies), `ms with ${CONNECTIONS} connections`),
    [`${name}.answer`]: shown(await bodyBytes(targets.daemon), 'bytes'),
    [`${name}.bareAnswer`]: shown(await bodyBytes(targets.sql), 'bytes'),
    [`${name}.noise`]: spread(ratios),
  }
}
