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

it('lets no two that need turns of two nodes wait for each other', async () => {
  await set('files.transfersPerNode', 1)
  const slots = new TransferSlots(settings)
  const { signal } = new AbortController()
  const done: string[] = []
  const copy = async (from: string, to: string) => {
    const release = await slots.takeAll([from, to], signal)
    await new Promise(setImmediate)
    done.push(`${from}${to}`)
    release()
  }
  await Promise.all([copy('a', 'b'), copy('b', 'a'), copy('a', 'a'), copy('b', 'c'), copy('c', 'a')])
  expect(done).toHaveLength(5)
  // One that is refused at the second node gives back what it has of the first.
  await set('files.waitingTransfersPerNode', 1)
  const held = await slots.take('b', signal)
  const waits = slots.take('b', signal)
  expect((await refusal(slots.takeAll(['a', 'b'], signal))).code).toBe('RATE_LIMITED')
  ;(await slots.take('a', signal))()
  held()
  ;(await waits)()
})
