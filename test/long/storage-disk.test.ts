// @module-tag long
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { getLogs } from '../../src/shared/api/console.ts'
import { createLocation, listLocations } from '../../src/shared/api/locations.ts'
import { deleteServer, getServer, type Server, updateServer } from '../../src/shared/api/servers.ts'
import { createTemplate, listTemplates } from '../../src/shared/api/templates.ts'
import { PanelError } from '../../src/shared/kernel/errors.ts'
import { isAlive, pause, until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from '../faults/fault-panel.ts'
import { GAME } from '../faults/machine.ts'
import { SmallDisk } from '../faults/small-disk.ts'
import { expectSound } from '../faults/storage-run.ts'
import { WriteLedger } from '../faults/write-ledger.ts'

const DISK_MIB = 24
const daemonDisk = await SmallDisk.mount(DISK_MIB)
const agentDisk = await SmallDisk.mount(DISK_MIB)
/** Where this process may not mount a file system, there is no small disk to fill: these tests are skipped. */
const canMount = daemonDisk !== undefined && agentDisk !== undefined

let panel: FaultPanel
let near: FaultNode
let far: FaultNode

beforeAll(async () => {
  if (!canMount) return
  panel = await FaultPanel.enter()
  near = await panel.addMachine('near')
  await agentDisk.link(join(panel.home, 'far'))
  far = await panel.addMachine('far')
  await panel.killDaemon('SIGTERM')
  await daemonDisk.take(join(panel.home, 'daemon'))
  await panel.startDaemon()
  for (const node of [near, far]) await panel.online(node)
})

afterEach(async () => {
  await daemonDisk?.clear()
  await agentDisk?.clear()
})

afterAll(async () => {
  try {
    await panel?.leave()
  } finally {
    await daemonDisk?.unmount()
    await agentDisk?.unmount()
  }
})

/** Fills the daemon's disk, and the room that is left within the files of the database. */
async function fillDatabase(): Promise<void> {
  await daemonDisk?.fill()
  let refused: unknown
  for (let i = 0; refused === undefined; i++) {
    refused = await panel.client
      .call(createLocation, { body: { name: `filling ${performance.now()} ${i}`, description: 'x'.repeat(400) } })
      .then(() => undefined, String)
  }
}

describe.skipIf(!canMount)('a daemon whose disk is full (skipped where no file system may be mounted)', () => {
  it('refuses writes with 507 INSUFFICIENT_SPACE, goes on with reads, and takes writes when there is room', async () => {
    await fillDatabase()
    const body = JSON.stringify({ name: 'no room' })
    const headers = { authorization: `Bearer ${panel.token}`, 'content-type': 'application/json' }
    const refused = await fetch(`${panel.url}/api/locations`, { method: 'POST', headers, body })
    expect([refused.status, await refused.json()]).toEqual([
      507,
      expect.objectContaining({ success: false, code: 'INSUFFICIENT_SPACE', error: expect.stringContaining('full') }),
    ])
    const reported = await panel.run(['locations', 'create', '--name', 'no-room'])
    expect([reported.code, reported.stderr]).toEqual([7, expect.stringContaining('full')])
    expect(await panel.client.call(listLocations, {})).not.toHaveLength(0)
    expect(await panel.isReady()).toBe(true)
    const { daemonPid } = panel
    await daemonDisk?.clear()
    await panel.client.call(createLocation, { body: { name: 'room again' } })
    expect(panel.daemonPid).toBe(daemonPid)
  })

  it('tells every one of many writes at once truly whether it is stored', { timeout: 60_000 }, async () => {
    const ledger = new WriteLedger(panel)
    const outcomes = new Map<string, string>()
    const codes = new Set<string>()
    // Large ones reach the disk before their commit: some fail in the midst of a group, and others with it.
    for (const free of [0, 200_000, 1_500_000, 2_500_000]) {
      await daemonDisk?.leave(free)
      const burst = Array.from({ length: 120 }, async (_, i) => {
        const name = `burst ${free} ${i}`
        const outcome = await ledger.write<{ id: string }>((client) =>
          i % 2 === 0
            ? client.call(createLocation, { body: { name } })
            : client.call(createTemplate, { body: { name, startup: 'sleep 1', installScript: '#'.repeat(60_000) } }),
        )
        outcomes.set(name, outcome.is)
        if (outcome.is === 'answered') ledger.created(i % 2 === 0 ? 'location' : 'template', outcome.data.id)
        if (outcome.is === 'refused') codes.add(outcome.error.code)
      })
      await Promise.all(burst)
    }
    expect([...codes]).toEqual(['INSUFFICIENT_SPACE'])
    expect(new Set(outcomes.values())).toEqual(new Set(['answered', 'refused']))
    const there = await names()
    for (const [name, is] of outcomes) expect([name, there.has(name)]).toEqual([name, is === 'answered'])
    await expectSound(panel, ledger)
    await daemonDisk?.clear()
    await panel.killDaemon()
    await panel.startDaemon()
    expect(await names()).toEqual(there)
    await expectSound(panel, ledger)
    for (const node of [near, far]) await panel.online(node)
  })

  it('writes down that a node has left as soon as there is room', { timeout: 60_000 }, async () => {
    const game = await panel.makeServer(near, { name: 'left', templateId: await panel.makeTemplate('left', GAME) })
    await fillDatabase()
    await panel.killAgent(near)
    await panel.online(near, false)
    await daemonDisk?.clear()
    expect(await panel.serverWhen(game.id, 'unknown')).toMatchObject({ lastKnownStatus: 'running' })
    panel.startAgent(near)
    expect(await panel.serverWhen(game.id, 'running')).toMatchObject({ pid: game.pid, crashCount: 0 })
  })
})

describe.skipIf(!canMount)('a node whose disk is full (skipped where no file system may be mounted)', () => {
  /** Ends with code 0 or 7 when a file says so, else talks. */
  const TALKER = `
echo start >> starts
echo ready
while :; do
  echo talk ${'and talk '.repeat(30)}
  for code in 0 7; do [ -e "end-$code" ] && rm "end-$code" && exit $code; done
  sleep 0.05
done
`
  let games: Record<'restarted' | 'clean' | 'failed' | 'kept' | 'crashed', Server>

  it('keeps its games and carries out each order once, and reports all as it was', { timeout: 90_000 }, async () => {
    const templateId = await panel.makeTemplate('talker', TALKER)
    const make = (name: string, request = {}) => panel.makeServer(far, { name, templateId, ...request })
    games = {
      restarted: await make('restarted'),
      clean: await make('clean', { restartPolicy: 'on-failure' }),
      failed: await make('failed', { restartPolicy: 'on-failure' }),
      kept: await make('kept'),
      crashed: await make('crashed'),
    }
    await panel.write(far, games.crashed, { name: 'end-7', text: '' })
    await panel.serverWhen(games.crashed.id, 'crashed')
    await fillAgent(games.crashed)
    const order = await panel.order(games.restarted.id, 'restart')
    // Empty files take no room.
    for (const [game, name] of [
      [games.clean, 'end-0'],
      [games.failed, 'end-7'],
    ] as const) {
      await panel.write(far, game, { name, text: '' })
      await until(`${name} to be followed`, async () => !(await isAlive(game.pid ?? 0)))
    }
    expect(await isAlive(games.kept.pid ?? 0)).toBe(true)
    // An order that is not on the disk is neither told as done nor carried out.
    expect(await ends(games.restarted, order)).toEqual([])
    expect(await isAlive(games.restarted.pid ?? 0)).toBe(true)
    await until('the log of a talking game to stand', async () => {
      const last = await lastLine(games.kept)
      await pause(300)
      return last === (await lastLine(games.kept))
    })

    await agentDisk?.clear()
    await until('the order is told', async () => (await ends(games.restarted, order)).length > 0)
    expect(await ends(games.restarted, order)).toMatchObject([{ ok: true }])
    expect(await panel.serverWhen(games.restarted.id, 'running')).toMatchObject({ crashCount: 0 })
    expect(await panel.starts(far, games.restarted)).toBe(2)
    expect(await panel.serverWhen(games.clean.id, 'stopped')).toMatchObject({ crashCount: 0, desired: 'stopped' })
    expect(await panel.starts(far, games.clean)).toBe(1)
    await until('the restart after the crash', async () => (await panel.starts(far, games.failed)) === 2)
    expect(await panel.serverWhen(games.failed.id, 'running')).toMatchObject({ crashCount: 1 })
    expect(await panel.server(games.kept.id)).toMatchObject({ status: 'running', pid: games.kept.pid, crashCount: 0 })
    expect(await panel.starts(far, games.kept)).toBe(1)
  })

  it('carries out what ends servers: a stop, a kill and a deletion', { timeout: 90_000 }, async () => {
    const templateId = await panel.makeTemplate('ended', TALKER)
    const [stopped, killed, deleted] = [
      await panel.makeServer(far, { name: 'told-to-stop', templateId, restartPolicy: 'always' }),
      await panel.makeServer(far, { name: 'told-to-die', templateId, restartPolicy: 'always' }),
      await panel.makeServer(far, { name: 'told-to-go', templateId, restartPolicy: 'always' }),
    ]
    await fillAgent(games.kept)
    const stop = await panel.order(stopped.id, 'stop')
    const kill = await panel.order(killed.id, 'kill')
    for (const [server, order] of [
      [killed, kill],
      [stopped, stop],
    ] as const) {
      expect(await panel.serverWhen(server.id, 'stopped')).toMatchObject({ crashCount: 0, pid: null })
      await until('the order is told', async () => (await ends(server, order)).length > 0)
      expect(await ends(server, order)).toMatchObject([{ ok: true }])
      expect(await isAlive(server.pid ?? 0)).toBe(false)
    }
    await panel.order(deleted.id, 'kill')
    await panel.serverWhen(deleted.id, 'stopped')
    await panel.client.call(deleteServer, { params: { serverId: deleted.id } })
    await until('the server is deleted', () =>
      panel.client.call(getServer, { params: { serverId: deleted.id } }).then(
        () => false,
        (error: unknown) => error instanceof PanelError && error.code === 'SERVER_NOT_FOUND',
      ),
    )
    expect(await isAlive(games.kept.pid ?? 0)).toBe(true)

    await agentDisk?.clear()
    for (const server of [stopped, killed]) {
      await panel.order(server.id, 'start')
      expect(await panel.serverWhen(server.id, 'running')).toMatchObject({ crashCount: 0 })
      expect(await panel.starts(far, server)).toBe(2)
      expect(await ends(server, server === stopped ? stop : kill)).toHaveLength(1)
    }
  })

  it('tells in the console how many lines it had no room for', async () => {
    const said = async (): Promise<string> => (await panel.run(['console', 'logs', 'kept', '--tail', '2000'])).stdout
    await until('the remark', async () => /\d+ lines were lost here: .*ENOSPC/.test(await said()))
  })
})

/** Fills the agent's disk, and the room that its journal has beside its reserve. */
async function fillAgent(server: Server): Promise<void> {
  await agentDisk?.fill()
  const before = panel.log.length
  let allocatedDiskMb = 64
  await until('the journal to be refused', async () => {
    allocatedDiskMb += 1
    await panel.client.call(updateServer, { params: { serverId: server.id }, body: { allocatedDiskMb } })
    return panel.log.slice(before).includes('cannot write journal')
  })
}

async function names(): Promise<Set<string>> {
  const found = new Set<string>()
  for (let page = 1, more = true; more; page++) {
    const query = { page, limit: 100 }
    const some = [
      ...(await panel.client.call(listLocations, { query })),
      ...(await panel.client.call(listTemplates, { query })),
    ]
    for (const { name } of some) found.add(name)
    more = some.length > 0
  }
  return found
}

async function lastLine({ id }: Server): Promise<number> {
  return (await panel.client.call(getLogs, { params: { serverId: id }, query: { lines: 1 } })).lastSeq
}

async function ends(server: Server, commandId: string) {
  return (await panel.orderEnds(server.id)).filter((data) => data['commandId'] === commandId)
}
