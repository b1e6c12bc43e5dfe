// @module-tag long
import { createHash, randomBytes, randomFillSync } from 'node:crypto'
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as backups from '../../src/shared/protocol/backups.ts'
import { BackupStage, creation, freshTicket, type NamedBackup, restoring } from '../agent/backups/backup-stage.ts'
import { growthMib, MIB, readBytes } from '../agent/backups/watched-agent.ts'

/** 40 files of 128 MiB: 5 GiB, and a small one among them. */
const FILES = 40
const FILE_MIB = 128
const ALL_BYTES = FILES * FILE_MIB * MIB
const GROWTH_MIB = 32
const MOST_MS = 1_200_000

let stage: BackupStage
const pathOf = (file: number): string => join(stage.folder, 'world', `r.${file}`)

beforeAll(async () => {
  stage = await BackupStage.enter()
  mkdirSync(join(stage.folder, 'world'))
  for (let file = 0; file < FILES; file++) fill(pathOf(file))
  writeFileSync(join(stage.folder, 'world', 'r.small'), 'small')
}, 300_000)
afterAll(() => stage.leave(), 120_000)

/** Bytes that nothing can make smaller beside some that can be, as in files of games. */
function fill(path: string): void {
  const block = Buffer.alloc(MIB, 'some words that come again and again; ')
  const file = openSync(path, 'w')
  for (let at = 0; at < FILE_MIB; at++) {
    randomFillSync(block, 0, MIB / 2)
    writeSync(file, block)
  }
  closeSync(file)
}

/** Of all files of the server, by their names. */
function sums(): string {
  const block = Buffer.alloc(MIB)
  const names = readdirSync(join(stage.folder, 'world')).sort()
  const rows = names.map((name) => {
    const hash = createHash('sha1')
    const file = openSync(join(stage.folder, 'world', name), 'r')
    for (let count = readSync(file, block); count > 0; count = readSync(file, block)) {
      hash.update(block.subarray(0, count))
    }
    closeSync(file)
    return `${name} ${hash.digest('hex')}`
  })
  return rows.join('\n')
}

const said = (text: string): boolean => process.stdout.write(`${text}\n`)

function create(name: NamedBackup) {
  return stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation() }, MOST_MS)
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

describe.each(['archive', 'incremental'] as const)('5 GiB as %s', (kind) => {
  let name: NamedBackup

  it('are packed with less than 32 MiB of memory', { timeout: MOST_MS }, async () => {
    name = stage.name(kind)
    let took = 0
    const growth = await growthMib(stage.stage.pid, async () => {
      took = await seconds(() => create(name))
    })
    said(`${kind}: created in ${took.toFixed(0)} s, memory grew by ${growth.toFixed(1)} MiB`)
    expect(growth).toBeLessThan(GROWTH_MIB)
  })

  it.each(['/world/r.small', '/world/r.39'])('give one file, %s, for less than a twentieth of it', async (path) => {
    const ticket = freshTicket()
    const one = { ticket, content: 'file', path, compression: 'none', offset: 0, length: null }
    const read = await readBytes(stage.stage.pid, () => stage.ask(backups.deliverBackup, { ...name, ...one }, MOST_MS))
    said(`${kind}: ${path} read ${(read / MIB).toFixed(1)} MiB, ${((100 * read) / ALL_BYTES).toFixed(2)} %`)
    const wanted = readFileSync(join(stage.folder, path))
    expect(stage.stage.peer.delivered.get(ticket)?.equals(wanted)).toBe(true)
    stage.stage.peer.delivered.delete(ticket)
    expect(read).toBeLessThan(ALL_BYTES * 0.05)
  })

  it('are put back with less than 32 MiB of memory', { timeout: MOST_MS }, async () => {
    const before = sums()
    rmSync(pathOf(0))
    writeFileSync(pathOf(1), 'ruined')
    let took = 0
    const growth = await growthMib(stage.stage.pid, async () => {
      const all = { serverId: stage.serverId, ...name, ...restoring() }
      took = await seconds(() => stage.ask(backups.restoreBackup, all, MOST_MS))
    })
    said(`${kind}: restored in ${took.toFixed(0)} s, memory grew by ${growth.toFixed(1)} MiB`)
    expect(sums()).toBe(before)
    expect(growth).toBeLessThan(GROWTH_MIB)
    if (kind === 'archive') await stage.ask(backups.deleteBackup, { ...name }, MOST_MS)
  })
})

it('of 5 GiB with 1 % changed less than 3 % are stored', { timeout: MOST_MS }, async () => {
  // Ten places of 5 MiB each.
  for (let file = 0; file < 10; file++) {
    const handle = openSync(pathOf(file * 4), 'r+')
    writeSync(handle, randomBytes(5 * MIB), 0, 5 * MIB, (10 + file * 7) * MIB + 12_345)
    closeSync(handle)
  }
  const name = stage.name('incremental')
  let stored = 0
  const took = await seconds(async () => {
    stored = (await create(name)).storedBytes
  })
  said(`1 % changed: ${took.toFixed(0)} s, ${((100 * stored) / ALL_BYTES).toFixed(2)} % stored`)
  expect(stored).toBeLessThan(ALL_BYTES * 0.03)
})

it('a damaged chunk is found, with the backups that it touches', { timeout: MOST_MS }, async () => {
  const last = stage.name('incremental')
  writeFileSync(join(stage.folder, 'world', 'r.only'), randomBytes(3 * MIB))
  await create(last)
  const { backups: stored } = await stage.ask(backups.listStored, {
    ...{ store: last.store, ownerId: stage.serverId, after: null, limit: 100 },
  })
  const wanted = stored.map(({ backupId, kind }) => ({ backupId, kind }))
  expect(wanted).toHaveLength(3)
  const folder = join(stage.stored, 'repository', 'packs')
  const newest = readdirSync(folder)
    .map((pack) => join(folder, pack))
    .sort((a, b) => statSync(a).mtimeMs - statSync(b).mtimeMs)
    .at(-1)
  const content = readFileSync(newest ?? '')
  content[100_000] = (content[100_000] ?? 0) ^ 1
  writeFileSync(newest ?? '', content)
  const check = { store: last.store, ownerId: stage.serverId, backups: wanted, deep: true }
  let damaged: unknown
  const took = await seconds(async () => {
    damaged = (await stage.ask(backups.verifyBackups, check, MOST_MS)).damaged
  })
  said(`all pieces checked in ${took.toFixed(0)} s`)
  expect(damaged).toMatchObject([{ backupId: last.backupId, paths: ['/world/r.only'], pathCount: 1 }])
})
