import { execFileSync } from 'node:child_process'
import { createCipheriv, createHash, randomBytes } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import * as backups from '../../../src/shared/protocol/backups.ts'
import { BackupStage, creation, freshKey, freshTicket, type NamedBackup, restoring, STORE } from './backup-stage.ts'

let stage: BackupStage
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await BackupStage.enter()
})
afterAll(() => stage.leave())

const LARGE = Buffer.alloc(3 * 1024 * 1024, 'the same again and again ')
const sha256 = (content: Buffer | string): string => createHash('sha256').update(content).digest('hex')

beforeEach(() => {
  rmSync(stage.stored, { recursive: true, force: true })
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(at('world', 'region'), { recursive: true })
  writeFileSync(at('server.properties'), 'motd=hello\n')
  writeFileSync(at('world', 'level.dat'), LARGE)
  writeFileSync(at('world', 'region', 'r.0.0'), 'region')
  writeFileSync(Buffer.concat([Buffer.from(`${stage.folder}/`), Buffer.from([0x66, 0xff])]), 'no text')
  symlinkSync('world/level.dat', at('latest'))
  linkSync(at('server.properties'), at('second.properties'))
  chmodSync(at('world', 'region', 'r.0.0'), 0o600)
  mkdirSync(at('empty'))
})

async function create(kind: backups.BackupKind, change: Record<string, unknown> = {}) {
  const name = stage.name(kind)
  const result = await stage.ask(backups.createBackup, { serverId: stage.serverId, ...name, ...creation(change) })
  return { name, result }
}

async function deliver(name: NamedBackup, change: Record<string, unknown>): Promise<Buffer> {
  const ticket = freshTicket()
  const what = { content: 'archive', path: null, compression: 'gzip', offset: 0, length: null, ...change }
  const { sha256: hash, bytes } = await stage.ask(backups.deliverBackup, { ...name, ticket, ...what })
  const content = stage.stage.peer.delivered.get(ticket) ?? Buffer.alloc(0)
  expect({ hash, bytes }).toEqual({ hash: sha256(content), bytes: content.length })
  return content
}

/** Names below the server's folder as bytes of one character each. */
const found = (): string[] => readdirSync(stage.folder, { recursive: true, encoding: 'latin1' }).sort()

describe.each(['archive', 'incremental'] as const)('a backup of kind %s', (kind) => {
  test('is put back as it was', async () => {
    const before = found()
    const { name, result } = await create(kind)
    expect(result).toMatchObject({ entries: 9, problemCount: 0 })
    expect(result.bytes).toBe(LARGE.length + 2 * 11 + 6 + 7)
    writeFileSync(at('world', 'level.dat'), 'ruined')
    writeFileSync(at('later'), 'x')
    rmSync(at('empty'), { recursive: true })
    const done = await stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...name, ...restoring() })
    expect(done).toMatchObject({ entries: 9, problemCount: 0 })
    expect(found()).toEqual(before)
    expect(readFileSync(at('world', 'level.dat')).equals(LARGE)).toBe(true)
    expect(readlinkSync(at('latest'))).toBe('world/level.dat')
    expect(statSync(at('world', 'region', 'r.0.0')).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(stage.stage.dataDir, 'servers'))).toEqual([stage.serverId])
    expect(readdirSync(join(stage.stage.dataDir, 'restores'))).toEqual([])
  })

  test('is listed, described and delivered in parts, and gone when it is deleted', async () => {
    const about = { name: 'before the update' }
    const { name, result } = await create(kind, { about })
    const page = { path: '/', recursive: false, after: null, limit: 3 }
    const first = await stage.ask(backups.listBackupEntries, { ...name, ...page })
    expect(first.entries.map(({ path }) => path)).toEqual(['/empty', '/f\udcff', '/latest'])
    const second = await stage.ask(backups.listBackupEntries, { ...name, ...page, after: first.next })
    expect(second.entries.map(({ path }) => path)).toEqual(['/second.properties', '/server.properties', '/world'])
    expect(second.next).toBeNull()
    const below = await stage.ask(backups.listBackupEntries, { ...name, ...page, path: '/world', recursive: true })
    expect(below.entries).toMatchObject([
      { path: '/world/level.dat', kind: 'file', size: LARGE.length, sha256: sha256(LARGE) },
      { path: '/world/region', kind: 'folder' },
      { path: '/world/region/r.0.0', sha256: sha256('region'), mode: 0o600 },
    ])
    expect(await stage.refused(backups.listBackupEntries, { ...name, ...page, path: '/none' })).toBe('NOT_FOUND')
    expect(await stage.ask(backups.describeBackup, { ...name })).toMatchObject({
      // What is sent of an archive as it lies is what the daemon knows of it.
      size: kind === 'archive' ? result.storedBytes : null,
      entries: 9,
      sha256: result.sha256,
      about,
    })
    expect((await deliver(name, { content: 'file', path: '/world/region/r.0.0' })).toString()).toBe('region')
    const all = { store: STORE, ownerId: null, after: null, limit: 100 }
    const { backups: listed } = await stage.ask(backups.listStored, all)
    expect(listed).toMatchObject([
      { ownerId: stage.serverId, backupId: name.backupId, kind, about, bytes: result.bytes },
    ])
    const { freedBytes } = await stage.ask(backups.deleteBackup, { ...name })
    expect(freedBytes).toBeGreaterThanOrEqual(result.storedBytes)
    expect(existsSync(stage.stored)).toBe(false)
    expect((await stage.ask(backups.listStored, all)).backups).toEqual([])
    expect(await stage.refused(backups.describeBackup, { ...name })).toBe('NOT_FOUND')
    expect(await stage.ask(backups.deleteBackup, { ...name })).toEqual({ freedBytes: 0 })
  })

  test('gives back single paths, and leaves the others', async () => {
    const { name } = await create(kind)
    writeFileSync(at('world', 'level.dat'), 'ruined')
    writeFileSync(at('server.properties'), 'changed')
    const paths = ['/world/level.dat', '/empty']
    const how = { serverId: stage.serverId, ...name, ...restoring({ paths }) }
    expect(await stage.ask(backups.restoreBackup, how)).toMatchObject({ entries: 2, problemCount: 0 })
    expect(readFileSync(at('world', 'level.dat')).equals(LARGE)).toBe(true)
    expect(readFileSync(at('server.properties'), 'utf8')).toBe('changed')
    expect(await stage.refused(backups.restoreBackup, { ...how, paths: ['/none'] })).toBe('NOT_FOUND')
    expect(await stage.refused(backups.restoreBackup, { ...how, paths: ['/../x'] })).toBe('PATH_INVALID')
    const kept = await stage.ask(backups.restoreBackup, { ...how, key: freshKey(), replace: false })
    expect(kept.problems).toMatchObject([{ path: '/world/level.dat' }])
  })
})

test('a restore leaves what it may not touch where it was, however deep that lies', async () => {
  const { name } = await create('archive')
  const levels = (count: number): string[] => Array.from({ length: count }, (_, i) => `d${i}`)
  for (const depth of [3, 64, 65, 300]) {
    mkdirSync(at(...levels(depth)), { recursive: true })
    writeFileSync(at(...levels(depth), 'kept.secret'), String(depth))
  }
  writeFileSync(at(...levels(3), 'other'), 'goes')
  const how = { serverId: stage.serverId, ...name, ...restoring({ denied: ['*.secret'] }) }
  expect(await stage.ask(backups.restoreBackup, how)).toMatchObject({ problemCount: 0 })
  const read = (depth: number): string => readFileSync(at(...levels(depth), 'kept.secret'), 'utf8')
  expect([3, 64, 65, 300].map(read)).toEqual(['3', '64', '65', '300'])
  expect(existsSync(at(...levels(3), 'other'))).toBe(false)
})

describe('increments', () => {
  const store = () => ({ store: STORE, ownerId: stage.serverId })
  const packs = (): string[] => readdirSync(join(stage.stored, 'repository', 'packs'))

  test('store what is new, and keep what others need when one is deleted', async () => {
    // The same in each run: where it is cut, and so how much a change stores, depends on it.
    const zeros = Buffer.alloc(6 * 1024 * 1024)
    const random = createCipheriv('aes-128-ctr', Buffer.alloc(16), Buffer.alloc(16)).update(zeros)
    writeFileSync(at('world', 'random'), random)
    writeFileSync(at('only-in-first'), randomBytes(4 * 1024 * 1024))
    const first = await create('incremental')
    expect(first.result.storedBytes).toBeGreaterThan(random.length)
    // In the middle: what is behind it moves.
    const changed = Buffer.concat([random.subarray(0, 3_000_000), Buffer.from('inserted'), random.subarray(3_000_000)])
    writeFileSync(at('world', 'random'), changed)
    rmSync(at('only-in-first'))
    const second = await create('incremental')
    expect(second.result.storedBytes).toBeLessThan(3 * 1024 * 1024)
    expect(second.result.bytes).toBe(first.result.bytes + 8 - 4 * 1024 * 1024)
    const third = await create('incremental')
    expect(third.result.storedBytes).toBeLessThan(20_000)
    const { freedBytes } = await stage.ask(backups.deleteBackup, { ...first.name })
    expect(freedBytes).toBeGreaterThan(4 * 1024 * 1024)
    for (const { name } of [second, third]) {
      rmSync(at('world', 'random'))
      await stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...name, ...restoring() })
      expect(readFileSync(at('world', 'random')).equals(changed)).toBe(true)
    }
    await stage.ask(backups.deleteBackup, { ...second.name })
    await stage.ask(backups.deleteBackup, { ...third.name })
    expect(existsSync(stage.stored)).toBe(false)
  })

  test('a damaged piece is found, with the backups and files that it is in', async () => {
    writeFileSync(at('world', 'random'), randomBytes(1024 * 1024))
    const first = await create('incremental')
    writeFileSync(at('only-in-second'), randomBytes(500_000))
    const second = await create('incremental')
    const wanted = [first, second].map(({ name: { backupId, kind } }) => ({ backupId, kind }))
    expect(await stage.ask(backups.verifyBackups, { ...store(), backups: wanted, deep: true })).toMatchObject({
      damaged: [],
    })
    const newest = packs()
      .sort(
        (a, b) =>
          statSync(join(stage.stored, 'repository/packs', a)).mtimeMs -
          statSync(join(stage.stored, 'repository/packs', b)).mtimeMs,
      )
      .at(-1)
    const path = join(stage.stored, 'repository', 'packs', newest ?? '')
    const content = readFileSync(path)
    content[1000] = (content[1000] ?? 0) ^ 1
    writeFileSync(path, content)
    const shallow = await stage.ask(backups.verifyBackups, { ...store(), backups: wanted, deep: false })
    expect(shallow.damaged).toEqual([])
    const { damaged } = await stage.ask(backups.verifyBackups, { ...store(), backups: wanted, deep: true })
    expect(damaged).toMatchObject([{ backupId: second.name.backupId, paths: ['/only-in-second'], pathCount: 1 }])
    const restore = { serverId: stage.serverId, ...second.name, ...restoring() }
    expect(await stage.refused(backups.restoreBackup, restore)).toBe('CHECKSUM')
    rmSync(path)
    const gone = await stage.ask(backups.verifyBackups, { ...store(), backups: wanted, deep: false })
    expect(gone.damaged).toMatchObject([{ backupId: second.name.backupId, paths: ['/only-in-second'] }])
  })

  test('pieces that the store has lost are stored again', async () => {
    writeFileSync(at('world', 'random'), randomBytes(1024 * 1024))
    await create('incremental')
    for (const pack of packs()) rmSync(join(stage.stored, 'repository', 'packs', pack))
    writeFileSync(at('later'), 'one more file')
    const { name } = await create('incremental')
    const { backupId, kind } = name
    const deep = { ...store(), backups: [{ backupId, kind }], deep: true }
    expect((await stage.ask(backups.verifyBackups, deep)).damaged).toEqual([])
    const before = readFileSync(at('world', 'random'))
    rmSync(at('world', 'random'))
    await stage.ask(backups.restoreBackup, { serverId: stage.serverId, ...name, ...restoring() })
    expect(readFileSync(at('world', 'random')).equals(before)).toBe(true)
    // The newest pack of a piece is not taken for one that nothing needs.
    await stage.ask(backups.pruneBackups, { ...store(), keep: [], dryRun: false })
    expect((await stage.ask(backups.verifyBackups, deep)).damaged).toEqual([])
  })

  test('a backup that lost what it needs while it was made is none', async () => {
    await create('incremental')
    const ticket = freshTicket()
    const { offered } = stage.stage.peer
    // A dump of a database is fetched when the store was read and before the files are.
    const fetched = vi.spyOn(offered, 'get').mockImplementationOnce(() => {
      rmSync(stage.stored, { recursive: true })
      return Buffer.from('dump')
    })
    const name = stage.name('incremental')
    const extras = [{ name: 'shop.sql', ticket }]
    const wanted = { serverId: stage.serverId, ...name, ...creation({ extras }) }
    expect(await stage.refused(backups.createBackup, wanted)).toBe('STORE_FAILED')
    fetched.mockRestore()
    expect(existsSync(stage.stored)).toBe(false)
  })
})

test('a folder of backups among those of servers is refused, also by a link and before it is made', async () => {
  const agent = stage.stage
  const servers = join(agent.dataDir, 'servers')
  symlinkSync(servers, join(agent.dataDir, 'way-in'))
  const refused = [
    { folder: join(servers, stage.serverId, 'backups') },
    { folder: servers },
    { folders: { big: join(agent.dataDir, 'way-in', stage.serverId, 'a', 'b') } },
  ]
  for (const backups of refused) {
    agent.backups = backups
    const { code, output } = await agent.spawnSecond()
    expect(code).not.toBe(0)
    expect(output).toContain('is among the folders of servers')
  }
  agent.backups = {}
})

test('a folder of its own disk is used while it has its mark: an unmounted disk is neither written to nor taken for an empty one', async () => {
  const agent = stage.stage
  const [disk, away, older] = ['disk', 'away', 'older'].map((name) => join(agent.dataDir, name)) as [
    string,
    string,
    string,
  ]
  await agent.stopAgent()
  agent.backups = { folders: { disk, older } }
  await agent.startAgent()
  const on = (folder: string, backupId = 'bak_disk') => ({
    store: { kind: 'local', storeId: 'bst_disk', folder },
    ownerId: stage.serverId,
    backupId,
    kind: 'archive',
  })
  const reply = async (op: string, input: Record<string, unknown>) => {
    const { error } = await stage.stage.peer.request({ op, ...input } as never)
    return error === null ? 'ok' : `${error.code} ${error.message}`
  }
  const probe = () => reply('backups.probe', { store: on('disk').store })
  // It has to be there, and gets its mark when it is first written to.
  expect(await probe()).toMatch(/^STORE_FAILED .*is its disk mounted\?/)
  expect(existsSync(disk)).toBe(false)
  mkdirSync(disk)
  expect(await reply('backups.stored', { store: on('disk').store, ownerId: null, after: null, limit: 10 })).toMatch(
    /mounted/,
  )
  expect(await probe()).toBe('ok')
  expect(readdirSync(disk)).toContain('.panel-backups')
  const create = (folder: string, id: string) =>
    reply('backups.create', { serverId: stage.serverId, ...on(folder, id), ...creation() })
  expect(await create('disk', 'bak_disk')).toBe('ok')
  // The disk is unmounted; the agent forgets nothing of it by a restart.
  renameSync(disk, away)
  mkdirSync(disk)
  for (const isRestarted of [false, true]) {
    if (isRestarted) {
      await agent.stopAgent()
      await agent.startAgent()
    }
    const asked = [
      await probe(),
      await create('disk', 'bak_other'),
      await reply('backups.describe', on('disk')),
      await reply('backups.delete', on('disk')),
      await reply('backups.verify', {
        ...on('disk'),
        backups: [{ backupId: 'bak_disk', kind: 'archive' }],
        deep: true,
      }),
      await reply('backups.stored', { store: on('disk').store, ownerId: null, after: null, limit: 10 }),
    ]
    for (const answer of asked) expect(answer).toMatch(/^STORE_FAILED .*backups\.folders\.disk.*is its disk mounted\?/)
    expect(readdirSync(disk)).toEqual([])
  }
  // Mounted again.
  rmSync(disk, { recursive: true })
  renameSync(away, disk)
  expect(await reply('backups.describe', on('disk'))).toBe('ok')
  // One that has backups since before there were marks, and one that the operator marks.
  mkdirSync(older)
  cpSync(join(disk, 'bst_disk'), join(older, 'bst_disk'), { recursive: true })
  expect(await reply('backups.describe', on('older'))).toBe('ok')
  expect(readdirSync(older)).toContain('.panel-backups')
  rmSync(older, { recursive: true })
  mkdirSync(older)
  expect(await create('older', 'bak_new')).toMatch(/^STORE_FAILED/)
  writeFileSync(join(older, '.panel-backups'), '')
  expect(await create('older', 'bak_new')).toBe('ok')
})

test('that is being made while its server is deleted fails, and leaves nothing', async () => {
  writeFileSync(at('large'), randomBytes(16 * 1024 * 1024))
  truncateSync(at('large'), 4 * 1024 ** 3)
  const input = { serverId: stage.serverId, ...stage.name('archive'), ...creation() }
  const packed = stage.refused(backups.createBackup, input)
  const { peer } = stage.stage
  await peer.until('it to be packed', () => existsSync(stage.stored) && treeOf(stage.stored).includes('.part-'))
  const done = await peer.order(stage.serverId, 1000, { op: 'delete', keepFiles: false })
  expect(done).toMatchObject({ ok: true })
  expect(await packed).toBe('NOT_FOUND')
  expect(treeOf(stage.stored)).not.toMatch(/backup\.json|\.part-|\.pack/)
})

function treeOf(folder: string): string {
  return execFileSync('find', [folder], { encoding: 'utf8' })
}
