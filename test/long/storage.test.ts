// @module-tag long
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createLocation } from '../../src/shared/api/locations.ts'
import { until } from '../e2e/wait.ts'
import { type FaultNode, FaultPanel } from '../faults/fault-panel.ts'
import { GAME } from '../faults/machine.ts'
import { migrateUnderKills } from '../faults/migration-run.ts'
import { SmallDisk } from '../faults/small-disk.ts'
import { expectSound, writeUnderKills } from '../faults/storage-run.ts'
import { WriteLedger } from '../faults/write-ledger.ts'

const disk = await SmallDisk.mount(24)
let panel: FaultPanel
let node: FaultNode

beforeAll(async () => {
  panel = await FaultPanel.enter()
  node = await panel.addMachine('box')
})

afterAll(async () => {
  try {
    await panel?.leave()
  } finally {
    await disk?.unmount()
  }
})

describe('a daemon that is killed in the midst of 1,000 writes of all kinds', () => {
  it('has every answered one, none half, and a sound database each time', async () => {
    const templateId = await panel.makeTemplate('game', GAME)
    const games = [
      await panel.makeServer(node, { name: 'one', templateId }),
      await panel.makeServer(node, { name: 'two', templateId }),
    ]
    const ledger = await writeUnderKills(panel, { node, games }, { writes: 1000, kills: 25 })
    expect(ledger.answered.length).toBeGreaterThanOrEqual(1000)
    expect(ledger.unknown).toBeGreaterThan(10)
    await panel.online(node)
    for (const { id } of games) await panel.serverWhen(id, 'running')
  })
})

describe('a migration', () => {
  it('that is killed 20 times leaves database and copies whole each time, and the copy leads back', async () => {
    const other = await FaultPanel.enter()
    try {
      await migrateUnderKills(other, { kills: 20, ballastMib: 64 })
    } finally {
      await other.leave()
    }
  })
})

describe.skipIf(disk === undefined)('a full disk (skipped where no file system may be mounted)', () => {
  beforeAll(async () => {
    await panel.killDaemon('SIGTERM')
    await disk?.take(join(panel.home, 'daemon'))
    await panel.startDaemon()
    await again()
  })

  afterEach(async () => {
    await disk?.clear()
    await again()
  })

  it('lets no news of an agent be half stored, and takes it up when there is room', async () => {
    const game = await panel.makeServer(node, { name: 'news', templateId: await panel.makeTemplate('news', GAME) })
    await fillDatabase()
    process.kill(game.pid ?? 0, 'SIGKILL')
    await until('news that cannot be stored', async () =>
      panel.log.includes('cannot store node report, storage is failing'),
    )
    // Whoever asks is told of it all the same.
    await panel.serverWhen(game.id, 'crashed')
    await disk?.clear()
    await panel.online(node)
    expect(await panel.serverWhen(game.id, 'crashed')).toMatchObject({ crashCount: 1, pid: null })
  })

  it('lets the daemon stop in order, and start with a clear word only', async () => {
    await fillDatabase()
    const dataDir = join(panel.home, 'daemon')
    expect((await panel.run(['down', '--data-dir', dataDir])).code).toBe(0)
    expect(panel.log).not.toContain('UNEXPECTED')
    // What is stopped in order needs less room.
    await disk?.fill()
    const { code, stderr } = await panel.run(['daemon', 'run', '--listen', '127.0.0.1:0', '--data-dir', dataDir])
    expect([code, stderr]).toEqual([14, expect.stringMatching(/^panel: the disk of the data folder is full/)])
    await disk?.clear()
    await panel.startDaemon()
    await expectSound(panel, new WriteLedger(panel))
  })
})

/** Fills the daemon's disk, and the room that is left within the files of the database. */
async function fillDatabase(): Promise<void> {
  await disk?.fill()
  let refused: unknown
  for (let i = 0; refused === undefined; i++) {
    const body = { name: `filling ${performance.now()} ${i}`, description: 'x'.repeat(400) }
    refused = await panel.client.call(createLocation, { body }).then(() => undefined, String)
  }
}

/** A fresh connection, without the pause that an agent makes after many refusals. */
async function again(): Promise<void> {
  await panel.killAgent(node)
  panel.startAgent(node)
  await panel.online(node)
}
