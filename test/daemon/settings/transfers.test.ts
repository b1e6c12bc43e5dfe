import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { openSettings, type SettingKey, type Settings } from '../../../src/daemon/core/settings.ts'
import { type Db, openDb } from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { TransferSlots } from '../../../src/daemon/features/operations/settings/transfer-slots.ts'
import { limitUpload, refuseLargeUpload } from '../../../src/daemon/features/operations/settings/upload-limit.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { refusal } from '../place-panel.ts'

const MIB = 1024 * 1024

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

it('ends an upload before the byte that is too many', async () => {
  await set('files.maxUploadMb', 2)
  async function* pieces(count: number) {
    for (let i = 0; i < count; i++) yield new Uint8Array(MIB)
  }
  const taken: number[] = []
  for await (const piece of limitUpload(settings, pieces(2))) taken.push(piece.byteLength)
  expect(taken).toEqual([MIB, MIB])
  const tooMany = async () => {
    for await (const piece of limitUpload(settings, pieces(3))) taken.push(piece.byteLength)
  }
  expect(await refusal(tooMany())).toMatchObject({ code: 'FILE_TOO_LARGE', meta: { maxBytes: 2 * MIB } })
  expect(taken).toHaveLength(4)
  expect(() => refuseLargeUpload(settings, 2 * MIB)).not.toThrow()
  expect(() => refuseLargeUpload(settings, 2 * MIB + 1)).toThrow('2 MiB')
})

it('runs as many transfers of a node as are set, lets others wait in turn, and refuses more', async () => {
  await set('files.transfersPerNode', 2)
  await set('files.waitingTransfersPerNode', 2)
  const slots = new TransferSlots(settings)
  const { signal } = new AbortController()
  const order: string[] = []
  const ends = new Map<string, () => void>()
  const start = (name: string, node = 'a', until = signal) =>
    slots.run(node, until, async () => {
      order.push(name)
      await new Promise<void>((resolve) => ends.set(name, resolve))
    })
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
  await Promise.resolve()
  expect(order).toEqual(['1', '2', 'other node', '3'])
  await set('files.transfersPerNode', 3)
  ends.get('1')?.()
  await running[0]
  await Promise.resolve()
  expect(order.at(-1)).toBe('6')
  for (const end of ends.values()) end()
  await Promise.all(running)
})
