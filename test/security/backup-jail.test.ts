import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import * as backups from '../../src/shared/protocol/backups.ts'
import { BackupStage, creation, freshTicket, type NamedBackup, restoring } from '../agent/backups/backup-stage.ts'
import { type Forged, forgeTar } from './tar-forge.ts'

const GOOD = 'good content'
const MIB = 1024 * 1024

let stage: BackupStage
let outside: string
/** What the store has before anybody changes it. */
let pristine: string
let name: NamedBackup
const at = (...names: string[]): string => join(stage.folder, ...names)
const stored = (file: string): string => join(stage.stored, 'backups', name.backupId, file)
const sha256 = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex')

beforeAll(async () => {
  stage = await BackupStage.enter('srv_one', 64)
  outside = join(stage.stage.dataDir, 'outside')
  writeFileSync(at('good'), GOOD)
  name = stage.name('archive')
  const made = { serverId: stage.serverId, ...name, ...creation({ compression: 'none' }) }
  await stage.ask(backups.createBackup, made)
  pristine = join(stage.stage.dataDir, 'pristine')
  cpSync(stage.stored, pristine, { recursive: true })
})
afterAll(() => stage.leave())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  rmSync(stage.stored, { recursive: true, force: true })
  cpSync(pristine, stage.stored, { recursive: true })
  rmSync(outside, { recursive: true, force: true })
  mkdirSync(outside)
  writeFileSync(join(outside, 'secret'), 'precious')
  writeFileSync(at('own'), 'own')
})

/** Nothing outside was touched, and nothing is left over. */
function expectUntouched(): void {
  expect(readdirSync(outside)).toEqual(['secret'])
  expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('precious')
  expect(readdirSync(join(stage.stage.dataDir, 'servers'))).toEqual([stage.serverId])
  expect(readdirSync(join(stage.stage.dataDir, 'restores'))).toEqual([])
  expect(existsSync('/etc/evil') || existsSync('/evil')).toBe(false)
}

type Line = Record<string, unknown>
const file = (path: string, change: Line = {}): Line => ({
  ...{ path, kind: 'file', mode: 0o644, modifiedMs: 0, size: GOOD.length, sha256: sha256(GOOD), offset: 512 },
  ...change,
})
const link = (path: string, target: string): Line => ({ path, kind: 'link', mode: 0o777, modifiedMs: 0, target })
const folder = (path: string): Line => ({ path, kind: 'folder', mode: 0o755, modifiedMs: 0 })

/** Writes another list into the store, with a `backup.json` that fits it as whoever owns the disk would write it. */
function forgeList(lines: readonly Line[] | Buffer, change: Line = {}): void {
  const members = { members: [[10_000, 10_000]] }
  const text = Buffer.isBuffer(lines) ? lines : [...lines, members].map((line) => `${JSON.stringify(line)}\n`).join('')
  const list = gzipSync(text)
  writeFileSync(stored('entries.jsonl.gz'), list)
  forgeHead({ entries: 100_000, listBytes: list.length, listSha256: sha256(list), ...change })
}

function forgeHead(change: Line): void {
  const head = JSON.parse(readFileSync(stored('backup.json'), 'utf8')) as Line
  writeFileSync(stored('backup.json'), JSON.stringify({ ...head, ...change }))
}

const restore = (change: Line = {}): Promise<string | undefined> =>
  stage.refused(backups.restoreBackup, { serverId: stage.serverId, ...name, ...restoring(change) })

/** Each is refused as a whole, and leaves the server's folder as it was. */
const REFUSED: readonly (readonly [string, () => void])[] = [
  ['a path with ".."', () => forgeList([file('../outside/secret')])],
  ['a path with ".." within', () => forgeList([folder('a'), file('a/../../outside/secret')])],
  ['a path that ends with ".."', () => forgeList([folder('a/..')])],
  ['a path with a NUL', () => forgeList([file('a\0b')])],
  ['a path of 8,000 bytes', () => forgeList([file(`${'a/'.repeat(4000)}x`)])],
  ['a path of 65 folders', () => forgeList([file(`${'a/'.repeat(65)}x`)])],
  ['a name of 300 bytes', () => forgeList([file('a'.repeat(300))])],
  ['a path that is no text', () => forgeList([file('x', { path: 7 })])],
  ['a kind that there is not', () => forgeList([file('x', { kind: 'device' })])],
  ['a mode with more than rights', () => forgeList([file('x', { mode: 0o4755 })])],
  ['a good file before a bad one', () => forgeList([file('fine'), file('../bad')])],
  ['a hash that the content does not have', () => forgeList([file('x', { sha256: sha256('other') })])],
  ['bytes before the archive', () => forgeList([file('x', { offset: -5 })])],
  ['bytes behind the archive', () => forgeList([file('x', { offset: 50 * MIB })])],
  ['a file that says to be 1 TiB', () => forgeList([file('x', { size: 2 ** 40, sha256: null })])],
  ['a backup that says to be 1 TiB', () => forgeHead({ bytes: 2 ** 40 })],
  ['more entries than it says', () => forgeList([file('a'), file('b')], { entries: 1 })],
  ['a list that is no gzip', () => writeFileSync(stored('entries.jsonl.gz'), 'hello')],
  ['a list with another hash', () => forgeList([file('x')], { listSha256: sha256('other') })],
  ['a list that is cut', () => truncateSync(stored('entries.jsonl.gz'), 30)],
  ['a list with a row of 20 MiB', () => forgeList(Buffer.alloc(20 * MIB, ' '))],
  ['a list that is no JSON', () => forgeList(Buffer.from('hello\n'))],
  ['a list that ends in a row', () => forgeList(Buffer.from('{"path":"x"'))],
  ['members that are no numbers', () => forgeList([file('x'), { members: [['a', 'b']] }])],
  ['pieces that are no hashes', () => forgeList([{ chunks: ['../../x'] }, file('x')])],
  ['a backup.json that is no JSON', () => writeFileSync(stored('backup.json'), 'hello')],
  ['a backup.json of 3 MiB', () => writeFileSync(stored('backup.json'), Buffer.alloc(3 * MIB, ' '))],
  ['a backup.json of another backup', () => forgeHead({ backupId: '../../outside' })],
  ['a backup.json of a later format', () => forgeHead({ format: 2 })],
  ['a backup.json with sizes below zero', () => forgeHead({ listBytes: -1 })],
  ['an archive that is gone', () => rmSync(stored('files.tar'))],
  ['an archive that is cut', () => truncateSync(stored('files.tar'), 515)],
  [
    'an archive that is a link to what is outside',
    () => {
      rmSync(stored('files.tar'))
      symlinkSync(join(outside, 'secret'), stored('files.tar'))
    },
  ],
  [
    'a list that is a link to what is outside',
    () => {
      rmSync(stored('entries.jsonl.gz'))
      symlinkSync(join(outside, 'secret'), stored('entries.jsonl.gz'))
    },
  ],
  [
    'a list that is a FIFO',
    () => {
      rmSync(stored('entries.jsonl.gz'))
      execFileSync('mkfifo', [stored('entries.jsonl.gz')])
    },
  ],
]

test.each(REFUSED)('%s touches nothing', async (_, forge) => {
  forge()
  expect(await restore()).toMatch(/^(?:CHECKSUM|ARCHIVE_\w+|PATH_INVALID|NO_SPACE|NOT_FOUND)$/)
  expectUntouched()
  expect(readdirSync(stage.folder)).toEqual(['own'])
  await restore({ paths: ['/x', '/secret', '/out'] })
  expectUntouched()
  expect(readFileSync(at('own'), 'utf8')).toBe('own')
})

/** What is harmless by itself goes where it says, and nowhere else. */
describe('what is restored stays within the folder:', () => {
  test('an absolute path is one below the folder, or refused', async () => {
    forgeList([file('/etc/evil')])
    await restore()
    expectUntouched()
  })

  test('a link that leads out is left out, and nothing goes through one that is there', async () => {
    forgeList([file('before'), link('out', outside), link('up', '../../outside'), link('in', 'before')])
    const input = { serverId: stage.serverId, ...name, ...restoring() }
    const { problems } = await stage.ask(backups.restoreBackup, input)
    expect(problems.map(({ path }) => path)).toEqual(['/out', '/up'])
    expect(readlinkSync(at('in'))).toBe('before')
    expectUntouched()
    symlinkSync(outside, at('out'))
    forgeList([folder('out'), file('out/secret')])
    await restore({ paths: ['/out/secret'] })
    expectUntouched()
  })

  test('a file below a link, or below a file, is left out', async () => {
    forgeList([file('x'), file('x/y'), link('out', outside), file('out/secret')])
    await restore()
    expectUntouched()
  })

  test('a folder that became a link since', async () => {
    symlinkSync(outside, at('world'))
    forgeList([folder('world'), file('world/secret'), file('world/new')])
    await restore({ paths: ['/world/secret', '/world/new'] })
    expectUntouched()
    await restore({ paths: ['/world'] })
    expectUntouched()
    expect(await restore()).toBeUndefined()
    expectUntouched()
    expect(readFileSync(at('world', 'secret'), 'utf8')).toBe(GOOD)
  })

  test('a link takes the place of a folder only in its own folder', async () => {
    forgeList([folder('a'), file('a/x'), link('a', outside), file('z')])
    await restore()
    expectUntouched()
  })

  test('files that were kept do not follow links of the backup', async () => {
    mkdirSync(at('world'))
    writeFileSync(at('world', 'kept'), 'kept')
    forgeList([link('world', outside)])
    await restore({ keepOthers: true })
    expectUntouched()
  })
})

const entry = (path: string, content = 'evil'): Forged => ({ name: path, content })

test.each([
  ['".."', () => forgeTar([entry('../outside/secret')])],
  ['an absolute name', () => forgeTar([entry('/etc/evil')])],
  ['a file below a link', () => forgeTar([{ name: 'o', type: '2', target: '/etc' }, entry('o/evil')])],
  ['a further name of what is outside', () => forgeTar([{ name: 'x', type: '1', target: '../../outside/secret' }])],
  ['a tar that is cut', () => forgeTar([{ name: 'x', content: 'half', size: 4000 }], true)],
  ['a device', () => forgeTar([{ name: 'x', type: '3' }])],
  ['more than the disk of the server has', () => forgeTar([{ name: 'x', size: 2 ** 32 }])],
] as const)('another node that sends %s touches nothing', async (_, tar) => {
  const ticket = freshTicket()
  stage.stage.peer.offered.set(ticket, tar())
  await stage.refused(backups.receiveBackup, { serverId: stage.serverId, ticket, ...restoring() })
  expectUntouched()
})

test('a bomb of a list ends early', async () => {
  const row = `${JSON.stringify(folder('a'))}\n`
  forgeList(Buffer.from(row.repeat(60_000)), { entries: 10 })
  expect(gunzipSync(readFileSync(stored('entries.jsonl.gz'))).length).toBeGreaterThan(3 * MIB)
  expect(await restore()).toBe('CHECKSUM')
  expectUntouched()
})
