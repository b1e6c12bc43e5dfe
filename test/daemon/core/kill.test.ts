import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openDb } from '../../../src/daemon/db/db.ts'
import { migrate } from '../../../src/daemon/db/migrations.ts'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { DIST } from '../../run-panel.ts'

let folder: string
let file: string
let child: ChildProcess | undefined
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-kill-'))
  file = join(folder, 'panel.db')
})
afterEach(async () => {
  if (child?.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
  await rm(folder, { recursive: true })
})

function run(script: string, ...args: string[]): ChildProcess {
  child = spawn(process.execPath, [join(import.meta.dirname, script), DIST, file, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  return child
}

describe('SIGKILL', () => {
  it('in the midst of writes loses none that was answered, and halves none', { timeout: 90_000 }, async () => {
    await migrate(file)
    const answered = new Set<number>()
    for (const enough of [40, 150, 400]) {
      const writer = run('writer.js', String(enough * 100_000))
      const before = answered.size
      let text = ''
      writer.stdout?.setEncoding('utf8').on('data', (part: string) => {
        const lines = (text + part).split('\n')
        text = lines.pop() ?? ''
        for (const line of lines) answered.add(Number(line))
        if (answered.size - before >= enough) writer.kill('SIGKILL')
      })
      await once(writer, 'close')
      expect(writer.signalCode).toBe('SIGKILL')
      const db = await openDb(file, systemClock)
      const rows = await db.read.selectFrom('setting').select('key').execute()
      await db.close()
      const found = new Set(rows.map(({ key }) => key))
      expect([...answered].filter((number) => !found.has(`key ${number}`))).toEqual([])
      expect([...found].filter((key) => key.startsWith('key') && !found.has(key.replace('key', 'twin')))).toEqual([])
      expect(found.size % 2).toBe(0)
      expect(await integrity()).toBe('ok')
    }
  })

  it.each([
    ['a migration leaves the version before, whole', [], 1, ['one']],
    ['making a new database leaves an empty one', ['new'], 0, []],
  ])('in the midst of %s', { timeout: 90_000 }, async (_, args, version, tables) => {
    const migrator = run('migrator.js', ...args)
    const closed = once(migrator, 'close')
    while ((await sizeOf(`${file}-wal`)) < 4_000_000) await systemClock.sleep(10)
    migrator.kill('SIGKILL')
    await closed
    expect(migrator.signalCode).toBe('SIGKILL')
    const connection = await Connection.open(file, 'existing')
    const found = await connection.all("select name from sqlite_master where type = 'table' order by name")
    expect([await connection.all('PRAGMA user_version'), found.map(({ name }) => name)]).toEqual([
      [{ user_version: version }],
      tables,
    ])
    await connection.close()
    expect(await integrity()).toBe('ok')
  })
})

async function integrity(): Promise<unknown> {
  const connection = await Connection.open(file, 'existing')
  const [row] = await connection.all('PRAGMA integrity_check')
  await connection.close()
  return row?.['integrity_check']
}

async function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0, // not there yet
  )
}
