import { connect } from 'node:net'
import { join } from 'node:path'
import type { BareOptions } from './bare-server.ts'
import { BenchPanel } from './bench-panel.ts'
import { atLeast, type Measurement, median, shown, spread } from './figure.ts'
import { Helper } from './processes.ts'
import { seedServers } from './seed.ts'

const ROUNDS = 5
const ROUND_MS = 600
const AT_A_TIME = 16
const RATIO = 0.35

/** Event streams opened until their first event and left again, per second, against a bare stream of Fastify. */
export const sseConnects: Measurement = async (progress) => {
  const panel = await BenchPanel.enter()
  const bare = new Helper('bare-server')
  try {
    const serverId = (await seedServers(panel, 10))(0)
    const { database, home, token } = panel
    const options: BareOptions = {
      database,
      scratch: join(home, 'scratch.db'),
      serverId,
      answers: {},
    }
    const { url } = await bare.ask<{ url: string }>(options)
    const rounds: { daemon: number[]; bare: number[] } = { daemon: [], bare: [] }
    for (let round = 0; round < ROUNDS; round++) {
      rounds.daemon.push(await connects(panel.url, `/api/servers/${serverId}/events`, token))
      rounds.bare.push(await connects(url, '/stream', token))
    }
    const ratios = rounds.daemon.map((value, round) => value / (rounds.bare[round] ?? Number.NaN))
    progress(`${median(rounds.daemon).toFixed(0)}/s, bare ${median(rounds.bare).toFixed(0)}/s`)
    return {
      perSecond: shown(median(rounds.daemon), 'streams/s'),
      barePerSecond: shown(median(rounds.bare), 'streams/s'),
      ratio: atLeast(median(ratios), RATIO, 'of the bare route'),
      noise: spread(ratios),
    }
  } finally {
    await bare.end()
    await panel.leave()
  }
}

async function connects(url: string, path: string, token: string): Promise<number> {
  const began = performance.now()
  let count = 0
  await Promise.all(
    Array.from({ length: AT_A_TIME }, async () => {
      while (performance.now() - began < ROUND_MS) {
        await connectOnce(url, path, token)
        count++
      }
    }),
  )
  return count / ((performance.now() - began) / 1000)
}

function connectOnce(url: string, path: string, token: string): Promise<void> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${token}\r\n\r\n`)
    })
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`the stream ended: ${text}`)))
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      if (!text.includes('event: connected')) return
      resolve()
      socket.destroy()
    })
  })
}
