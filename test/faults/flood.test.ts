// @module-tag long
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sendCommand } from '../../src/shared/api/console.ts'
import type { Server } from '../../src/shared/api/servers.ts'
import { type FaultNode, FaultPanel } from './fault-panel.ts'
import { flood, knock, slowHandshakes } from './gateway-flood.ts'
import { GAME, median, took } from './machine.ts'

/** A typed line reaches its game within this time, whatever strangers do: its median and its worst. */
const MEDIAN_MS = 150
const WORST_MS = 2000
const GROWTH_BYTES = 48 * 1024 * 1024

let panel: FaultPanel
let node: FaultNode
let game: Server

beforeAll(async () => {
  panel = await FaultPanel.enter()
  node = await panel.addMachine('live')
  game = await panel.makeServer(node, { name: 'live', templateId: await panel.makeTemplate('game', GAME) })
})

afterAll(async () => {
  await panel?.leave()
})

/** Types lines for as long as the work takes; answers how long each took. */
async function typeDuring(work: Promise<unknown>): Promise<number[]> {
  let working = true
  const over = work.finally(() => {
    working = false
  })
  const times: number[] = []
  const body = { command: 'hello' }
  while (working || times.length < 10) {
    times.push(await took(() => panel.client.call(sendCommand, { params: { serverId: game.id }, body })))
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  await over
  return times
}

async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${panel.daemonPid}/status`, 'utf8')
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) * 1024
}

const stranger = () => ({ url: panel.url, from: '127.0.0.2', nodeId: node.id })

describe('strangers at the gateway', () => {
  it('are refused without an effect on the agent that is connected, and take no memory', {
    timeout: 90_000,
  }, async () => {
    await flood(stranger(), 1000, 20)
    const before = await residentBytes()
    let statuses = new Map<number, number>()
    const times = await typeDuring(
      flood(stranger(), 3000, 20).then((seen) => {
        statuses = seen
      }),
    )
    expect([...statuses.keys()].filter((status) => ![401, 429].includes(status))).toEqual([])
    expect([...statuses.values()].reduce((sum, count) => sum + count, 0)).toBe(3000)
    expect(median(times)).toBeLessThan(MEDIAN_MS)
    expect(Math.max(...times)).toBeLessThan(WORST_MS)
    expect((await residentBytes()) - before).toBeLessThan(GROWTH_BYTES)
    await expectUntouched()
  })

  it('that only begin a handshake hold up nobody', { timeout: 120_000 }, async () => {
    const before = await residentBytes()
    const strangers = slowHandshakes(stranger(), 300)
    try {
      const times = await typeDuring(strangers.dripped)
      expect(median(times)).toBeLessThan(MEDIAN_MS)
      expect(Math.max(...times)).toBeLessThan(WORST_MS)
      // Another agent gets in meanwhile.
      await panel.killAgent(node)
      panel.startAgent(node)
      await panel.online(node)
    } finally {
      strangers.leave()
    }
    expect((await residentBytes()) - before).toBeLessThan(GROWTH_BYTES)
    await expectUntouched()
  })

  it('with headers of 15 KiB are refused, with larger ones cut off', { timeout: 120_000 }, async () => {
    const before = await residentBytes()
    const knocks = async (): Promise<number[]> => {
      const statuses: number[] = []
      for (let i = 0; i < 50; i++) {
        statuses.push(await knock({ ...stranger(), from: '127.0.0.3' }, 15 * 1024))
        statuses.push(await knock({ ...stranger(), from: '127.0.0.3' }, 1024 * 1024))
      }
      return statuses
    }
    let statuses: number[] = []
    const times = await typeDuring(
      knocks().then((seen) => {
        statuses = seen
      }),
    )
    expect(statuses.filter((status) => ![401, 429, 431, 400, 0].includes(status))).toEqual([])
    expect(Math.max(...times)).toBeLessThan(WORST_MS)
    expect((await residentBytes()) - before).toBeLessThan(GROWTH_BYTES)
    await expectUntouched()
  })
})

async function expectUntouched(): Promise<void> {
  expect((await panel.node(node)).isOnline).toBe(true)
  expect(await panel.serverWhen(game.id, 'running')).toMatchObject({ pid: game.pid, crashCount: 0 })
  expect(await panel.starts(node, game)).toBe(1)
}
