import { createHash, type Hash, randomFillSync } from 'node:crypto'
import { closeSync, openSync, readSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import * as backups from '../../../src/shared/protocol/backups.ts'
import { BackupStage, creation, freshTicket, restoring } from './backup-stage.ts'
import { growthMib, MIB, readBytes } from './watched-agent.ts'

const SIZE_MIB = 512
const GROWTH_MIB = 32

let stage: BackupStage

beforeAll(async () => {
  stage = await BackupStage.enter()
})
afterAll(() => stage.leave())

test('512 MiB are packed and put back with less than 32 MiB of memory, and one file of it reads little', async () => {
  const path = join(stage.folder, 'world')
  const before = write(path)
  writeSmall('zz-small', 'small')
  const name = stage.name('archive')
  const { pid } = stage.stage
  const creating = await growthMib(pid, () =>
    stage.ask(backups.createBackup, {
      ...{ serverId: stage.serverId, ...name },
      ...creation({ compression: 'none' }),
    }),
  )
  expect(creating).toBeLessThan(GROWTH_MIB)
  const ticket = freshTicket()
  const one = { ticket, content: 'file', path: '/zz-small', compression: 'none', offset: 0, length: null }
  const read = await readBytes(pid, () => stage.ask(backups.deliverBackup, { ...name, ...one }))
  expect(stage.stage.peer.delivered.get(ticket)?.toString()).toBe('small')
  expect(read / MIB).toBeLessThan(SIZE_MIB * 0.05)
  rmSync(path)
  const restored = await growthMib(pid, () =>
    stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...name, ...restoring() }),
  )
  expect(restored).toBeLessThan(GROWTH_MIB)
  expect(hashOf(path)).toBe(before)
})

function writeSmall(name: string, content: string): void {
  const file = openSync(join(stage.folder, name), 'w')
  writeSync(file, content)
  closeSync(file)
}

/** Blocks that differ; answers the hash of all. */
function write(path: string): string {
  const [hash, block, file] = [createHash('sha1'), randomFillSync(Buffer.alloc(MIB)), openSync(path, 'w')]
  for (let at = 0; at < SIZE_MIB; at++) {
    block.writeUInt32BE(at)
    hash.update(block)
    writeSync(file, block)
  }
  closeSync(file)
  return hash.digest('hex')
}

function hashOf(path: string): string {
  const [hash, block, file]: [Hash, Buffer, number] = [createHash('sha1'), Buffer.alloc(MIB), openSync(path, 'r')]
  for (let count = readSync(file, block); count > 0; count = readSync(file, block))
    hash.update(block.subarray(0, count))
  closeSync(file)
  return hash.digest('hex')
}
