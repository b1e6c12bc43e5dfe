import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import { SCHEMA_VERSION } from '../../src/daemon/db/migrations.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { createLocation, listLocations } from '../../src/shared/api/locations.ts'
import { pause } from '../e2e/wait.ts'
import { DIST } from '../run-panel.ts'
import type { FaultPanel } from './fault-panel.ts'
import { end } from './process-end.ts'

const KEPT = 'of the time before'

/** How often a migration is killed, and how large the database is that it copies first. */
export interface MigrationPlan {
  readonly kills: number
  readonly ballastMib: number
}

/**
 * Kills a newer program again and again while it migrates the panel's database, in its copying and in its step; lets it end;
 * has this program refuse the result; and goes back to the copy that the migration made. The daemon runs before and after.
 */
export async function migrateUnderKills(panel: FaultPanel, { kills, ballastMib }: MigrationPlan): Promise<void> {
  await panel.client.call(createLocation, { body: { name: 'kept', description: KEPT } })
  await panel.killDaemon('SIGTERM')
  const folder = join(panel.home, 'daemon', 'db')
  const file = join(folder, 'panel.db')
  await load(file, ballastMib)
  for (let kill = 1; kill <= kills; kill++) {
    const migrator = await beginMigration(file, 50_000_000)
    await moment(kill, file)
    await end(migrator, 'SIGKILL')
    expect(migrator.signalCode).toBe('SIGKILL')
    expect(await stateOf(file)).toEqual({ sound: 'ok', version: SCHEMA_VERSION, description: KEPT })
    await expectUsableCopies(folder)
  }
  const last = await beginMigration(file, 1000)
  await once(last, 'exit')
  expect(last.exitCode).toBe(0)
  expect(await stateOf(file)).toEqual({ sound: 'ok', version: SCHEMA_VERSION + 1, description: 'migrated' })
  await expectRefused(panel, file)
  await goBack(folder, file)
  await panel.startDaemon()
  const locations = await panel.client.call(listLocations, {})
  expect(locations.find(({ name }) => name === 'kept')?.description).toBe(KEPT)
}

/** A moment in the copying, or in the step when part of it is on the disk already. */
async function moment(kill: number, file: string): Promise<void> {
  const isHalf = async (): Promise<boolean> =>
    kill % 2 === 0
      ? (await sizeOf(`${file}-wal`)) > kill * 500_000
      : (await readdir(join(file, '..', 'snapshots')).catch(() => [])).some((name) => name.endsWith('.unfinished'))
  for (const deadline = performance.now() + 20_000; !(await isHalf()); ) {
    if (performance.now() > deadline) throw new Error('the migration never came to the moment of its kill')
    await pause(1)
  }
}

async function beginMigration(file: string, rows: number): Promise<ChildProcess> {
  const script = join(import.meta.dirname, 'slow-migrator.js')
  const child = spawn(process.execPath, [script, DIST, file, String(rows)], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

/** Copies that were cut off are no copies; all others are whole and of the version before. */
async function expectUsableCopies(folder: string): Promise<void> {
  for (const copy of await copiesIn(folder)) {
    expect(await stateOf(join(folder, 'snapshots', copy))).toEqual({
      sound: 'ok',
      version: SCHEMA_VERSION,
      description: KEPT,
    })
  }
}

/** This program does not know the newer schema: it says so and changes nothing. */
async function expectRefused(panel: FaultPanel, file: string): Promise<void> {
  const before = await readFile(file)
  const [dataDir, listen] = [join(panel.home, 'daemon'), '127.0.0.1:0']
  for (const words of [
    ['daemon', 'run', '--listen', listen],
    ['up', '--listen', listen],
  ]) {
    const { code, stderr } = await panel.run([...words, '--data-dir', dataDir])
    const word = `has schema version ${SCHEMA_VERSION + 1}, this panel knows versions up to ${SCHEMA_VERSION}`
    expect([code, stderr]).toEqual([14, expect.stringContaining(word)])
    expect(stderr).toContain('start the newer panel, or restore the snapshot that its upgrade made')
    expect(stderr.trim().split('\n')).toHaveLength(1)
  }
  expect((await readFile(file)).equals(before)).toBe(true)
}

async function goBack(folder: string, file: string): Promise<void> {
  const newest = (await copiesIn(folder)).at(-1)
  if (newest === undefined) throw new Error('the migration made no copy')
  for (const suffix of ['-wal', '-shm']) await rm(file + suffix, { force: true })
  await copyFile(join(folder, 'snapshots', newest), file)
}

async function copiesIn(folder: string): Promise<string[]> {
  const names = await readdir(join(folder, 'snapshots')).catch(() => []) // none was begun yet
  return names.filter((name) => name.endsWith('.db')).sort()
}

async function stateOf(file: string): Promise<{ sound: unknown; version: unknown; description: unknown }> {
  const connection = await Connection.open(file, 'existing')
  try {
    const [check] = await connection.all('pragma integrity_check')
    const [version] = await connection.all('pragma user_version')
    const [row] = await connection.all("select description from location where name = 'kept'")
    return {
      sound: check?.['integrity_check'],
      version: version?.['user_version'],
      description: row?.['description'],
    }
  } finally {
    await connection.close()
  }
}

async function load(file: string, mib: number): Promise<void> {
  const connection = await Connection.open(file, 'existing')
  const numbers = `with recursive n (i) as (select 1 union all select i + 1 from n where i < ${mib * 1024})`
  await connection.exec(`create table ballast (text text) strict;
    insert into ballast ${numbers} select hex(randomblob(500)) from n; pragma wal_checkpoint(truncate);`)
  await connection.close()
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0, // not there yet
  )
}
