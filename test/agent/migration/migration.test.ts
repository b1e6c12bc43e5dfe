import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import * as migration from '../../../src/shared/protocol/migration.ts'
import { forgeTar } from '../../security/tar-forge.ts'
import { gameSpec } from '../agent-stage.ts'
import { archiveOf, freshTicket, MigrationStage, SERVER, sha1 } from './migration-stage.ts'

let stage: MigrationStage
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await MigrationStage.enter()
})
afterAll(() => stage.leave())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  stage.asked.length = 0
  stage.answers.clear()
})

const WORLD = Buffer.alloc(300_000, 'chunks of a world ')
const ARCHIVE = archiveOf([
  { name: 'world/level.dat', content: WORLD },
  { name: 'world/', type: '5' },
  { name: 'server.properties', content: 'motd=old\n' },
  { name: 'server.properties', content: 'motd=hello\n' },
  { name: 'latest', type: '2', target: 'world/level.dat' },
])
const MOVED = ['latest', 'server.properties', 'world']

/** What anybody on the node would make of the files. */
function manifestOf(folder: string): string {
  const script = 'find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum'
  return execFileSync('sh', ['-c', script], { cwd: folder, encoding: 'utf8' }).slice(0, 64)
}

/** Nothing is left beside the servers' folders. */
function expectNothingAside(): void {
  expect(readdirSync(stage.servers)).toEqual([SERVER])
  expect(readdirSync(join(stage.agent.dataDir, 'migrations'))).toEqual([])
}

/** An archive of which the source sends half, until `finish` is called. */
function offerHalf(): { begun: Promise<void>; finish(): void } {
  let answer: ServerResponse | undefined
  const half = ARCHIVE.length >> 1
  const begun = new Promise<void>((resolve) => {
    stage.answers.set('/archive', (_request, response) => {
      answer = response
      response.writeHead(200, { 'content-length': ARCHIVE.length })
      response.write(ARCHIVE.subarray(0, half), () => resolve())
    })
  })
  return { begun, finish: () => answer?.end(ARCHIVE.subarray(half)) }
}

test('files come once, are checked and take the place of the folder', async () => {
  const stepId = stage.step()
  const expected = stage.offer(ARCHIVE)
  const pulled = await stage.ask(migration.pullFiles, stage.pull(stepId, expected))
  expect(pulled).toMatchObject({
    ...{ files: 2, bytes: WORLD.length + 11, problemCount: 0 },
    ...{ archiveBytes: ARCHIVE.length, archiveSha1: sha1(ARCHIVE) },
  })
  expect(readdirSync(stage.folder)).toEqual([])
  expect(await stage.ask(migration.pullFiles, stage.pull(stepId, expected))).toEqual(pulled)
  expect(stage.asked).toEqual(['/archive'])
  expect(await stage.ask(migration.askFiles, { stepId })).toEqual({ state: 'ready', progress: null, pulled })
  const full = { files: 2, read: 2, bytes: pulled.bytes, differences: [], differenceCount: 0 }
  expect(await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })).toEqual(full)
  const place = { stepId, serverId: SERVER, existing: 'fail' }
  expect(await stage.ask(migration.placeFiles, place)).toEqual({ placed: true })
  expect(readdirSync(stage.folder).sort()).toEqual(MOVED)
  expect(readFileSync(at('latest')).equals(WORLD)).toBe(true)
  expect(readFileSync(at('server.properties'), 'utf8')).toBe('motd=hello\n')
  expect(manifestOf(stage.folder)).toBe(pulled.manifestSha256)
  expect(await stage.ask(migration.placeFiles, place)).toEqual({ placed: false })
  expect((await stage.ask(migration.askFiles, { stepId })).state).toBe('placed')

  writeFileSync(at('world', 'level.dat'), Buffer.from(WORLD).fill('x', 0, 1))
  writeFileSync(at('later'), 'x')
  rmSync(at('server.properties'))
  const changed = await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })
  expect(changed.differences.map(({ path }) => path)).toEqual(['/server.properties', '/world/level.dat', '/'])

  expect(await stage.ask(migration.wipeFiles, { stepId })).toEqual({ wiped: true })
  expect(await stage.ask(migration.wipeFiles, { stepId })).toEqual({ wiped: false })
  expect(existsSync(at('world'))).toBe(true)
  expectNothingAside()
})

test('files come no faster than they may', async () => {
  const stepId = stage.step()
  const archive = archiveOf([{ name: 'noise', content: randomBytes(20_000) }])
  const from = performance.now()
  const pulled = await stage.ask(
    migration.pullFiles,
    stage.pull(stepId, { ...stage.offer(archive), bytesPerSecond: 20_000 }),
  )
  expect(performance.now() - from).toBeGreaterThan(900)
  expect(pulled).toMatchObject({ files: 1, archiveSha1: sha1(archive) })
  await stage.ask(migration.wipeFiles, { stepId })
  expectNothingAside()
})

test('files come through the daemon as well', async () => {
  const stepId = stage.step()
  const ticket = freshTicket()
  stage.agent.peer.offered.set(ticket, ARCHIVE)
  const source = { kind: 'ticket', ticket }
  const pulled = await stage.ask(migration.pullFiles, stage.pull(stepId, { source, expectSha1: sha1(ARCHIVE) }))
  expect(pulled).toMatchObject({ files: 2, archiveBytes: ARCHIVE.length })
  await stage.ask(migration.wipeFiles, { stepId })
  const unknown = stage.pull(stepId, { source: { kind: 'ticket', ticket: freshTicket() } })
  expect(await stage.refused(migration.pullFiles, unknown)).toMatchObject({ code: 'INTERRUPTED' })
  expectNothingAside()
})

describe('an archive is not taken', () => {
  const good = { expectBytes: ARCHIVE.length, expectSha1: sha1(ARCHIVE) }
  const damaged = Buffer.from(ARCHIVE)
  damaged.fill(0xff, 100, 140)

  test.each([
    ['that has other bytes', archiveOf([{ name: 'other', content: 'x' }]), good, 'CHECKSUM'],
    ['that is cut off', ARCHIVE.subarray(0, 400), good, 'CHECKSUM'],
    ['that was damaged on its way', damaged, good, 'CHECKSUM'],
    ['that was made so', damaged, { expectBytes: damaged.length, expectSha1: sha1(damaged) }, 'ARCHIVE_UNSUPPORTED'],
    ['that has more than expected', Buffer.concat([ARCHIVE, Buffer.alloc(9)]), good, 'CHECKSUM'],
    ['with a name that leads out', archiveOf([{ name: '../out', content: 'x' }]), {}, 'ARCHIVE_UNSUPPORTED'],
    ['with an absolute name', archiveOf([{ name: '/tmp/out', content: 'x' }]), {}, 'ARCHIVE_UNSUPPORTED'],
    ['that is a page', Buffer.from('<html>not found</html>'), {}, 'ARCHIVE_UNSUPPORTED'],
    [
      'that becomes much more',
      gzipSync(forgeTar([{ name: 'bomb', content: Buffer.alloc(33 * 1024 * 1024) }])),
      {},
      'NO_SPACE',
    ],
  ])('%s', async (_what, archive, expected, code) => {
    writeFileSync(at('own'), 'own')
    stage.offer(archive)
    const stepId = stage.step()
    expect(await stage.refused(migration.pullFiles, stage.pull(stepId, expected))).toMatchObject({ code })
    expect(await stage.ask(migration.askFiles, { stepId })).toMatchObject({ state: 'none' })
    expect(readdirSync(stage.folder)).toEqual(['own'])
    expectNothingAside()
  })

  test('from where the source does not lead, and where the node does not go', async () => {
    stage.offer(ARCHIVE)
    stage.answers.set('/moved', (_request, response) => {
      response.writeHead(302, { location: '/archive' }).end()
    })
    const url = (text: string, origin = stage.origin) => ({
      source: { kind: 'url', url: text, origins: [origin], insecure: false },
    })
    const stepId = stage.step()
    const codeOf = async (change: object): Promise<string | undefined> =>
      (await stage.refused(migration.pullFiles, stage.pull(stepId, { ...change })))?.code
    expect(await codeOf(url(`${stage.origin}/archive`, 'http://127.0.0.1:1'))).toBe('PATH_INVALID')
    expect(await codeOf(url(`${stage.origin}/archive`.replace('//', '//user:word@')))).toBe('PATH_INVALID')
    expect(await codeOf(url('file:///etc/passwd', 'file://'))).toBe('PATH_INVALID')
    expect(await codeOf(url('http://169.254.169.254/latest', 'http://169.254.169.254'))).toBe('PATH_INVALID')
    expect(stage.asked).toEqual([])
    expect(await codeOf(url(`${stage.origin}/moved`))).toBe('INTERRUPTED')
    expect(await codeOf(url(`${stage.origin}/gone`))).toBe('INTERRUPTED')
    expect(stage.asked).toEqual(['/moved', '/gone'])
    expectNothingAside()
  })
})

test('devices, and links that lead out, are left out and named', async () => {
  const stepId = stage.step()
  stage.offer(
    archiveOf([
      { name: 'good', content: 'good' },
      { name: 'device', type: '3' },
      { name: 'pipe', type: '6' },
      { name: 'out', type: '2', target: '../../../etc/passwd' },
      { name: 'same', type: '1', target: 'good' },
    ]),
  )
  const pulled = await stage.ask(migration.pullFiles, stage.pull(stepId))
  expect(pulled.problems.map(({ path }) => path)).toEqual(['/device', '/pipe', '/out'])
  expect(pulled).toMatchObject({ files: 2, bytes: 8, problemCount: 3 })
  expect(await stage.ask(migration.verifyFiles, { stepId, mode: 'sample' })).toMatchObject({ differenceCount: 0 })
  await stage.ask(migration.wipeFiles, { stepId })
  expectNothingAside()
})

test('work goes on when whoever asked has gone, and ends when it is wiped', async () => {
  const { peer } = stage.agent
  const stepId = stage.step()
  const half = offerHalf()
  peer.send({ type: 'request', id: 'first', request: { op: migration.pullFiles.op, ...stage.pull(stepId) } })
  await half.begun
  peer.send({ type: 'request.cancel', id: 'first' })
  const reply = await peer.until('the end of waiting', () => peer.of('reply').find(({ id }) => id === 'first'))
  expect(reply.error?.code).toBe('CANCELLED')
  expect((await stage.ask(migration.askFiles, { stepId })).state).toBe('pulling')
  const second = stage.ask(migration.pullFiles, stage.pull(stepId))
  half.finish()
  expect((await second).files).toBe(2)
  expect(stage.asked).toEqual(['/archive'])
  await stage.ask(migration.wipeFiles, { stepId })

  const again = offerHalf()
  const third = stage.refused(migration.pullFiles, stage.pull(stepId))
  await again.begun
  expect(await stage.ask(migration.wipeFiles, { stepId })).toEqual({ wiped: true })
  expect((await third)?.code).toBe('CANCELLED')
  expectNothingAside()
})

test('an agent that was killed forgets what was half there and keeps what had come', async () => {
  const [ready, cut] = [stage.step(), stage.step()]
  stage.offer(ARCHIVE, '/first')
  const pulled = await stage.ask(migration.pullFiles, stage.pull(ready, {}, '/first'))
  const half = offerHalf()
  const request = { op: migration.pullFiles.op, ...stage.pull(cut) }
  stage.agent.peer.send({ type: 'request', id: 'cut', request })
  await half.begun
  await stage.agent.killAgent()
  await stage.agent.startAgent()
  expect(await stage.ask(migration.askFiles, { stepId: cut })).toMatchObject({ state: 'none' })
  expect(await stage.ask(migration.askFiles, { stepId: ready })).toMatchObject({ state: 'ready', pulled })
  stage.offer(ARCHIVE)
  expect(await stage.ask(migration.pullFiles, stage.pull(cut))).toEqual(pulled)
  expect(await stage.ask(migration.placeFiles, { stepId: cut, serverId: SERVER, existing: 'fail' })).toEqual({
    placed: true,
  })
  expect(readdirSync(stage.folder).sort()).toEqual(MOVED)
  await stage.ask(migration.wipeFiles, { stepId: cut })
  await stage.ask(migration.wipeFiles, { stepId: ready })
  expectNothingAside()
})

test('files that the server has stay, are replaced, or are kept beside, as was asked; a server that runs is left alone', async () => {
  writeFileSync(at('own'), 'own')
  writeFileSync(at('server.properties'), 'motd=own\n')
  stage.offer(ARCHIVE)
  const place = async (existing: string) => {
    const stepId = stage.step()
    await stage.ask(migration.pullFiles, stage.pull(stepId))
    const refusal = await stage.refused(migration.placeFiles, { stepId, serverId: SERVER, existing })
    await stage.ask(migration.wipeFiles, { stepId })
    return { code: refusal?.code ?? null, names: readdirSync(stage.folder).sort() }
  }
  expect(await place('fail')).toEqual({ code: 'CONFLICT_STATE', names: ['own', 'server.properties'] })
  expect(await place('merge')).toEqual({ code: null, names: [...MOVED, 'own'].sort() })
  expect(readFileSync(at('server.properties'), 'utf8')).toBe('motd=hello\n')
  expect(await place('replace')).toEqual({ code: null, names: MOVED })

  await stage.agent.peer.order(SERVER, 2, { op: 'start', spec: gameSpec(SERVER, 2) })
  expect(await place('replace')).toEqual({ code: 'CONFLICT_STATE', names: MOVED })
  await stage.agent.peer.order(SERVER, 3, { op: 'kill' })
  expectNothingAside()
})

describe('a folder of the node', () => {
  const MANIFEST = 'name: Lobby\ntemplate: minecraft\nlimits: {memoryMb: 1024, diskMb: 0}\nports: [25565]\n'
  const serverAt = (name: string, manifest: string | null): string => {
    const folder = join(stage.root, name)
    mkdirSync(join(folder, 'world'), { recursive: true })
    writeFileSync(join(folder, 'world', 'level.dat'), 'level')
    if (manifest !== null) writeFileSync(join(folder, 'panel-server.yaml'), manifest)
    return folder
  }
  const outside = (): string => join(stage.agent.dataDir, 'elsewhere')

  beforeEach(() => {
    execFileSync('find', [stage.root, '-mindepth', '1', '-delete'])
    mkdirSync(outside(), { recursive: true })
    writeFileSync(join(outside(), 'panel-server.yaml'), MANIFEST)
    serverAt('a-good', MANIFEST)
    serverAt('b-broken', 'name: [')
    serverAt('c-wrong', MANIFEST.replace('25565', '70000'))
    serverAt('d-none', null)
    symlinkSync(outside(), join(stage.root, 'e-link'))
    symlinkSync(join(outside(), 'panel-server.yaml'), join(serverAt('f-link', null), 'panel-server.yaml'))
    serverAt('g-good', `${MANIFEST}variables: {MOTD: hello, SLOTS: 20}\nowner: alice\n`)
    writeFileSync(join(stage.root, 'notes.txt'), 'no server')
  })

  test('is listed by pages, with what is wrong with a server', async () => {
    const list = (after: string | null) => stage.ask(migration.listDirectory, { path: stage.root, after, limit: 5 })
    const first = await list(null)
    expect(first.servers.map(({ folder, problem }) => [folder, problem])).toEqual([
      ['a-good', null],
      ['b-broken', expect.stringContaining('is not valid YAML')],
      ['c-wrong', expect.stringContaining('ports.0')],
      ['d-none', 'has no panel-server.yaml'],
      ['e-link', 'is a link, and links are not followed'],
    ])
    expect(first.servers[0]).toMatchObject({ bytes: 5, files: 1, manifest: { name: 'Lobby', ports: [25565] } })
    expect(first.next).toBe('e-link')
    const second = await list(first.next)
    expect(second.servers).toMatchObject([
      { folder: 'f-link', manifest: null, problem: expect.stringContaining('cannot be read') },
      { folder: 'g-good', problem: null, manifest: { owner: 'alice', variables: { MOTD: 'hello', SLOTS: 20 } } },
    ])
    expect(second.next).toBeNull()
  })

  test('gives its files without what describes them, and nothing outside of it', async () => {
    const stepId = stage.step()
    const folder = (name: string, path = stage.root) =>
      stage.pull(stepId, { source: { kind: 'directory', path, folder: name } })
    symlinkSync('/etc/passwd', join(stage.root, 'a-good', 'users'))
    const pulled = await stage.ask(migration.pullFiles, folder('a-good'))
    expect(pulled).toMatchObject({ files: 1, bytes: 5, archiveBytes: null, archiveSha1: null, problemCount: 1 })
    await stage.ask(migration.placeFiles, { stepId, serverId: SERVER, existing: 'replace' })
    expect(readdirSync(stage.folder)).toEqual(['world'])
    expect(readdirSync(join(stage.root, 'a-good')).sort()).toEqual(['panel-server.yaml', 'users', 'world'])
    await stage.ask(migration.wipeFiles, { stepId })
    for (const [name, path] of [
      ['e-link', stage.root],
      ['..', stage.root],
      ['elsewhere', stage.agent.dataDir],
      ['level.dat', `${stage.root}/a-good/world`],
      ['passwd', '/etc'],
      ['x', `${stage.root}/../x`],
      ['x', `${stage.root}/e-link`],
    ] as const) {
      const refusal = await stage.refused(migration.pullFiles, folder(name, path))
      expect(refusal?.code, `${path} ${name}`).toBe('PATH_INVALID')
    }
    const listed = await stage.refused(migration.listDirectory, { path: '/etc', after: null, limit: 5 })
    expect(listed).toMatchObject({ code: 'PATH_INVALID', message: expect.stringContaining('migration.roots') })
    expectNothingAside()
  })
})
