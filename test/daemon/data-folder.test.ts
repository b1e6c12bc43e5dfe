// @module-tag long
import { chmod, chown, copyFile, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { runPanel } from '../run-panel.ts'
import { skippedUnless } from '../skips.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-folder-'))
  await writeFile(join(folder, 'file'), '')
  // Nobody, root included, opens a folder for writing.
  await mkdir(join(folder, 'odd', 'daemon.lock'), { recursive: true })
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('a data folder that cannot be used', () => {
  it.each([
    // Which of the two is seen first depends on what is looked for in it.
    ['file', /there is a file of that name|a part of its path is no folder/],
    ['file/below', /a part of its path is no folder/],
    ['odd', /daemon\.lock in it is a folder/],
  ])('is named with what to do: %s', async (name, why) => {
    const dataDir = join(folder, name)
    for (const command of [['daemon', 'run'], ['up']]) {
      const args = [...command, '--listen', '127.0.0.1:0', '--data-dir', dataDir]
      const ran = await runPanel(args, { env: { HOME: folder } })
      expect([ran.code, ran.stdout, ran.stderr]).toEqual([14, '', expect.stringMatching(why)])
      expect(ran.stderr).toContain(`panel: the data folder ${dataDir} cannot be used: `)
      expect(ran.stderr).toContain('--data-dir')
    }
  })
})

it('a data folder that its file system does not take, or a host name that nobody knows, is named', async () => {
  for (const [args, why] of [
    [
      ['--listen', '127.0.0.1:0', '--data-dir', '/proc/none/data'],
      'the folder /proc/none cannot be made: /proc takes none',
    ],
    [['--listen', 'panel.invalid:0', '--data-dir', join(folder, 'named')], 'this machine has no address of that name'],
  ] as const) {
    const env = { HOME: folder, PANEL_HTTP__TRUSTED_PROXIES: '127.0.0.1' }
    const ran = await runPanel(['daemon', 'run', ...args], { env })
    expect([ran.code, ran.stdout]).toEqual([14, expect.not.stringContaining('ready')])
    expect(ran.stderr).toContain(why)
  }
})

const isRoot = process.getuid?.() === 0
const PERSON = 12345

/** Owners of everything in a folder. */
async function ownersIn(path: string): Promise<readonly (readonly [string, number])[]> {
  const names = await readdir(path, { recursive: true })
  return Promise.all(names.map(async (name) => [name, (await stat(join(path, name))).uid] as const))
}

describe('panel db restore', () => {
  let data: string
  let copy: string
  const run = (args: readonly string[], uid?: number) => {
    let asked = false
    return runPanel([...args, '--data-dir', data], {
      env: { HOME: folder },
      ...(uid === undefined ? {} : { uid }),
      // A second signal would end it before it has stopped.
      onOutput: (text) => {
        if (asked || !text.includes('daemon ready')) return undefined
        asked = true
        return 'SIGTERM'
      },
    })
  }
  const start = (uid?: number) => run(['daemon', 'run', '--listen', '127.0.0.1:0', '--log-format', 'json'], uid)
  const restore = (from: string, dataDir = data) =>
    runPanel(['db', 'restore', from, '--yes', '--data-dir', dataDir], { env: { HOME: folder } })

  beforeAll(async () => {
    await chmod(folder, 0o755)
    data = join(folder, 'data')
    await mkdir(data, { mode: 0o700 })
    if (isRoot) await chown(data, PERSON, PERSON)
    expect(await start(isRoot ? PERSON : undefined)).toMatchObject({ code: 0 })
    copy = join(folder, 'copy.db')
    await copyFile(join(data, 'db', 'panel.db'), copy)
  })

  it.skipIf(!isRoot)(
    `by root leaves all to the user of the panel, who starts it again${skippedUnless(isRoot, 'root')}`,
    async () => {
      await rm(join(data, 'daemon.lock'))
      expect(await restore(copy)).toMatchObject({ code: 0 })
      const owners = await ownersIn(data)
      expect(owners.map(([name]) => name)).toEqual(
        expect.arrayContaining(['daemon.lock', 'db/panel.db', expect.stringMatching(/^db\/replaced-.*\/panel\.db$/)]),
      )
      expect(owners.filter(([, uid]) => uid !== PERSON)).toEqual([])
      expect(await start(PERSON)).toMatchObject({ code: 0 })
    },
  )

  it.skipIf(!isRoot)(
    `and a start name the file that is somebody else's, and whose it is${skippedUnless(isRoot, 'root')}`,
    async () => {
      for (const [file, args] of [
        ['db/panel.db', ['daemon', 'run', '--listen', '127.0.0.1:0']],
        ['daemon.lock', ['db', 'restore', copy, '--yes']],
      ] as const) {
        await chmod(join(data, file), 0o600)
        await chown(join(data, file), 0, 0)
        const ran = await run(args, PERSON)
        await chown(join(data, file), PERSON, PERSON)
        expect([ran.code, ran.stderr]).toEqual([
          14,
          expect.stringContaining(`${join(data, file)} belongs to uid 0, and`),
        ])
        expect(ran.stderr).toContain(`this runs as uid ${PERSON}`)
      }
    },
  )

  it('takes nothing but the database of a panel, and says what it was given', async () => {
    const foreign = join(folder, 'foreign.db')
    const connection = await Connection.open(foreign, 'create')
    await connection.exec('create table a (x); pragma user_version = 15')
    await connection.close()
    await writeFile(join(folder, 'text'), 'no database at all')
    for (const [from, why] of [
      [foreign, 'it is not the database of a panel'],
      [folder, 'it is a folder, not a file'],
      [join(folder, 'text'), 'it is no SQLite database'],
    ] as const) {
      const ran = await restore(from)
      expect([ran.code, ran.stderr]).toEqual([8, expect.stringContaining(`${from} cannot be restored: ${why}`)])
    }
  })

  it('makes no data folder of a mistyped or empty name', async () => {
    const ran = await restore(copy, join(folder, 'daat'))
    expect([ran.code, ran.stderr]).toEqual([14, expect.stringContaining('is no data folder of a panel')])
    expect(ran.stderr).toContain(`mkdir -p -m 700 ${join(folder, 'daat', 'db')}`)
    expect(await readdir(folder)).not.toContain('daat')
    expect(await restore(copy, '')).toMatchObject({ code: 2, stderr: 'panel: --data-dir is empty (USAGE)\n' })
  })
})
