// @module-tag long
import { copyFile, open, readFile, stat, truncate, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { createLocation, listLocations } from '../../src/shared/api/locations.ts'
import { FaultPanel } from './fault-panel.ts'

let panel: FaultPanel
let file: string
let copy: string

beforeAll(async () => {
  panel = await FaultPanel.enter()
  await panel.client.call(createLocation, { body: { name: 'kept' } })
  await panel.killDaemon('SIGTERM')
  file = join(panel.home, 'daemon', 'db', 'panel.db')
  copy = join(panel.home, 'copy.db')
  await copyFile(file, copy)
})

afterAll(async () => {
  await panel?.leave()
})

const place = () => ['--data-dir', join(panel.home, 'daemon')]
const names = async () => (await panel.client.call(listLocations, {})).map(({ name }) => name)
const check = async () => {
  const { code, stdout } = await panel.run(['db', 'check', '-o', 'json', ...place()])
  return { code, found: JSON.parse(stdout) as { status: string; problems: string[]; running: boolean } }
}

/** Bytes that are no page, at the beginning of a page. */
async function spoil(at: number, bytes: number): Promise<void> {
  const handle = await open(file, 'r+')
  await handle.write(Buffer.alloc(bytes, 0xa5), 0, bytes, at)
  await handle.close()
}

describe('a database file', { timeout: 90_000 }, () => {
  it('that is restored has nothing of what came after the copy, also when a killed daemon has left a log', async () => {
    await panel.startDaemon()
    await panel.client.call(createLocation, { body: { name: 'since' } })
    await panel.killDaemon('SIGKILL')
    expect((await stat(`${file}-wal`)).size).toBeGreaterThan(0)
    const { code, stderr } = await panel.run(['db', 'restore', copy, '--yes', ...place()])
    expect(code, stderr).toBe(0)
    await panel.startDaemon()
    expect(await names()).toEqual(['here', 'kept'])
    await panel.killDaemon('SIGTERM')
  })

  it.each([
    ['whose header is gone', () => spoil(0, 100)],
    ['of which half is there', async () => truncate(file, Math.floor((await stat(file)).size / 8192) * 4096)],
  ])('%s ends the start with what to do, and a copy leads back', async (_, damage) => {
    await damage()
    const broken = await readFile(file)
    const { code, stderr } = await panel.run(['daemon', 'run', '--listen', '127.0.0.1:0', ...place()])
    expect([code, stderr]).toEqual([14, expect.stringContaining(`the database ${file} is damaged`)])
    for (const part of ['panel db check', 'panel db restore', join(panel.home, 'daemon', 'db', 'snapshots')]) {
      expect(stderr).toContain(part)
    }
    const { code: exit, found } = await check()
    expect([exit, found.status, found.running]).toEqual([11, 'damaged', false])
    expect(found.problems.length).toBeGreaterThan(0)

    const restored = await panel.run(['db', 'restore', copy, '--yes', '-o', 'json', ...place()])
    expect(restored.code, restored.stderr).toBe(0)
    const { replaced } = JSON.parse(restored.stdout) as { replaced: string }
    expect((await readFile(join(replaced, 'panel.db'))).equals(broken)).toBe(true)
    expect((await check()).code).toBe(0)
    await panel.startDaemon()
    expect(await names()).toContain('kept')
    const busy = await panel.run(['db', 'restore', copy, '--yes', ...place()])
    expect([busy.code, busy.stderr]).toEqual([7, expect.stringContaining('panel down')])
    await panel.killDaemon('SIGTERM')
  })

  it('with one bad page is served as not ready, and no damaged copy is restored', async () => {
    const connection = await Connection.open(file, 'read')
    const [row] = await connection.all("select rootpage from sqlite_schema where name = 'location'")
    await connection.close()
    await spoil((Number(row?.['rootpage']) - 1) * 4096, 4096)
    const spoilt = join(panel.home, 'spoilt.db')
    await copyFile(file, spoilt)
    const start = await panel.startDaemon().then(
      () => 'started',
      (error: unknown) => String(error),
    )
    expect(start).toBe('started')
    await expect(names()).rejects.toMatchObject({ code: 'DATABASE_UNAVAILABLE' })
    const response = await fetch(`${panel.url}/readyz`)
    expect([response.status, await response.json()]).toEqual([
      503,
      { status: 'unhealthy', reason: 'the database is damaged' },
    ])
    const status = await panel.run(['daemon', 'status', '-o', 'json', ...place()])
    expect(JSON.parse(status.stdout)).toMatchObject({ status: 'running', ready: false })
    expect((await check()).found).toMatchObject({ status: 'damaged', running: true })
    await panel.killDaemon('SIGTERM')
    const refused = await panel.run(['db', 'restore', spoilt, '--yes', ...place()])
    expect([refused.code, refused.stderr]).toEqual([8, expect.stringContaining('cannot be restored')])
    await writeFile(spoilt, 'no database at all')
    expect((await panel.run(['db', 'restore', spoilt, '--yes', ...place()])).code).toBe(8)
    expect((await panel.run(['db', 'restore', copy, '--yes', ...place()])).code).toBe(0)
    await panel.startDaemon()
    expect(await names()).toContain('kept')
  })
})
