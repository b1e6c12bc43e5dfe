import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSettings, type SettingKey, type Settings } from '../../src/daemon/core/settings.ts'
import { type Db, openDb } from '../../src/daemon/db/db.ts'
import { migrate } from '../../src/daemon/db/migrations.ts'
import { TransferSlots } from '../../src/daemon/gateway/transfer-slots.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { refusal } from './place-panel.ts'

let folder: string
let db: Db
let settings: Settings
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-transfers-'))
  await migrate(join(folder, 'panel.db'))
  db = await openDb(join(folder, 'panel.db'), systemClock)
  settings = await openSettings(db)
})
afterEach(async () => {
  await db.close()
  await rm(folder, { recursive: true })
})

const set = (key: Extract<SettingKey, `files.${string}`>, value: number) =>
  db.write((tx) => settings.set(tx, key, value))

it('runs as many transfers of a node as are set, lets others wait in turn, and refuses more', async () => {
  await set('files.transfersPerNode', 2)
  await set('files.waitingTransfersPerNode', 2)
  const slots = new TransferSlots(settings)
  const { signal } = new AbortController()
  const order: string[] = []
  const ends = new Map<string, () => void>()
  const start = async (name: string, node = 'a', until = signal) => {
    const release = await slots.take(node, until)
    order.push(name)
    await new Promise<void>((resolve) => ends.set(name, resolve))
    release()
  }
  const gone = new AbortController()
  const running = [start('1'), start('2'), start('3'), start('other node', 'b')]
  const left = start('4', 'a', gone.signal)
  expect((await refusal(start('5'))).code).toBe('RATE_LIMITED')
  gone.abort(new Error('the client went away'))
  await expect(left).rejects.toThrow('went away')
  running.push(start('6'))
  expect(order).toEqual(['1', '2', 'other node'])
  ends.get('2')?.()
  await running[1]
  await new Promise(setImmediate)
  expect(order).toEqual(['1', '2', 'other node', '3'])
  await set('files.transfersPerNode', 3)
  ends.get('1')?.()
  await running[0]
  await new Promise(setImmediate)
  expect(order.at(-1)).toBe('6')
  for (const end of ends.values()) end()
  await Promise.all(running)
})
