// @module-tag long
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import type { IncomingHttpHeaders } from 'node:http'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import * as migration from '../../src/shared/protocol/migration.ts'
import { archiveOf, MigrationStage, SERVER } from '../agent/migration/migration-stage.ts'
import { HARMLESS, REFUSED } from '../security/hostile-archives.ts'
import { forgeTar } from '../security/tar-forge.ts'

let stage: MigrationStage
let outside: string
/** On this road the server's own folder has no part: what lies below a name there is a name like others. */
const ELSEWHERE: Readonly<Record<string, readonly string[]>> = {
  'a file where a link leads out': ['good', 'home', 'home/out', 'home/out/secret'],
}
const TARS = HARMLESS.filter(([what]) => !what.includes('zip'))

beforeAll(async () => {
  stage = await MigrationStage.enter()
  outside = join(stage.servers, '..', 'outside')
}, 60_000)
afterAll(() => stage.leave())
beforeEach(() => {
  execFileSync('find', [stage.folder, stage.root, '-mindepth', '1', '-delete'])
  mkdirSync(outside, { recursive: true })
  writeFileSync(join(outside, 'secret'), 'precious')
  mkdirSync(join(stage.folder, 'home'))
  symlinkSync(outside, join(stage.folder, 'home', 'out'))
})
afterEach(() => {
  expect(readdirSync(outside)).toEqual(['secret'])
  expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('precious')
  expect(lstatSync(join(outside, 'secret')).nlink).toBe(1)
  for (const path of ['/etc/evil', '/tmp/out']) expect(existsSync(path)).toBe(false)
  expect(readdirSync(stage.servers)).toEqual([SERVER])
  expect(readdirSync(join(stage.agent.dataDir, 'migrations'))).toEqual([])
})

const found = (): string[] => readdirSync(stage.folder, { recursive: true, encoding: 'utf8' }).sort()

describe('an archive of another panel', () => {
  test.each(REFUSED)('%s is refused and leaves nothing', async (_, make) => {
    const archive = make()
    const before = found()
    for (const content of archive.length === 0 ? [archive] : [archive, gzipSync(archive)]) {
      const stepId = stage.step()
      const refusal = await stage.refused(migration.pullFiles, stage.pull(stepId, stage.offer(content)))
      expect(['ARCHIVE_UNSUPPORTED', 'NO_SPACE']).toContain(refusal?.code)
      expect(await stage.ask(migration.askFiles, { stepId })).toMatchObject({ state: 'none' })
    }
    expect(found()).toEqual(before)
  })

  test.each(TARS)('with %s comes without it', async (what, make, left) => {
    const stepId = stage.step()
    const content = gzipSync(make())
    const pulled = await stage.ask(migration.pullFiles, stage.pull(stepId, stage.offer(content)))
    expect(await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })).toMatchObject({ differenceCount: 0 })
    await stage.ask(migration.placeFiles, { stepId, serverId: SERVER, existing: 'replace' })
    expect(found()).toEqual(ELSEWHERE[what] ?? left)
    for (const name of found()) expect(lstatSync(join(stage.folder, name)).isSymbolicLink()).toBe(false)
    expect(pulled.files).toBe(found().filter((name) => lstatSync(join(stage.folder, name)).isFile()).length)
    await stage.ask(migration.wipeFiles, { stepId })
  })

  test('with names that are no text comes by its bytes', async () => {
    const stepId = stage.step()
    stage.offer(
      archiveOf([
        { name: 'caf\xe9/na\xefve', content: 'x' },
        { name: 'a\nb\t"', content: 'y' },
      ]),
    )
    const pulled = await stage.ask(migration.pullFiles, stage.pull(stepId))
    expect(pulled).toMatchObject({ files: 2, problemCount: 0 })
    expect(await stage.ask(migration.verifyFiles, { stepId, mode: 'full' })).toMatchObject({
      read: 2,
      differenceCount: 0,
    })
    await stage.ask(migration.placeFiles, { stepId, serverId: SERVER, existing: 'replace' })
    const names = readdirSync(stage.folder, { encoding: 'latin1' }).sort()
    expect(names).toEqual(['a\nb\t"', 'caf\xe9'])
    await stage.ask(migration.wipeFiles, { stepId })
  })

  const many = Array.from({ length: 40 }, (_, at) => ({ name: `f${at}`, content: 'x' }))
  const most = (change: object) => ({ most: { entries: 1000, bytes: 32 * 1024 * 1024, ms: 60_000, ...change } })
  test.each([
    ['more entries than allowed', archiveOf(many), most({ entries: 39 })],
    [
      'more bytes than allowed',
      archiveOf([{ name: 'x', content: Buffer.alloc(300_000, 'abc') }]),
      most({ bytes: 299_999 }),
    ],
    [
      'more than the server may have',
      forgeTar([{ name: 'x', content: Buffer.alloc(65 * 2 ** 20, 'abc') }]),
      most({ bytes: 2 ** 40 }),
    ],
  ])('that has %s is refused', async (_, archive, change) => {
    stage.offer(archive)
    const refusal = await stage.refused(migration.pullFiles, stage.pull(stage.step(), change))
    expect(refusal?.code).toBe('NO_SPACE')
  })

  test('that does not end is cut off where nobody has said how long it is', async () => {
    let sent = 0
    stage.answers.set('/archive', (_request, response) => {
      response.writeHead(200)
      response.write(forgeTar([{ name: 'x', content: 'x' }]))
      const piece = Buffer.alloc(1024 * 1024)
      const more = (): void => {
        if (response.destroyed) return
        sent += piece.length
        response.write(piece, more)
      }
      more()
    })
    const refusal = await stage.refused(migration.pullFiles, stage.pull(stage.step()))
    expect(refusal?.code).toBe('NO_SPACE')
    expect(sent).toBeLessThan(128 * 1024 * 1024)
  })

  test('whose connection ends in the middle is to be asked for again, whatever is known of it', async () => {
    const archive = archiveOf([
      { name: 'x', content: Buffer.from(Array.from({ length: 300_000 }, (_, at) => (at * 7919) % 251)) },
    ])
    for (const length of [archive.length, undefined]) {
      stage.answers.set('/archive', (_request, response) => {
        response.writeHead(200, length === undefined ? {} : { 'content-length': length })
        response.write(archive.subarray(0, archive.length >> 1), () => response.destroy())
      })
      const refusal = await stage.refused(migration.pullFiles, stage.pull(stage.step()))
      expect(refusal?.code).toBe('INTERRUPTED')
    }
  })

  test('that stops coming is given up in time', async () => {
    stage.answers.set('/archive', (_request, response) => {
      response.writeHead(200).write(gzipSync(forgeTar([{ name: 'x', content: 'x' }])).subarray(0, 20))
    })
    const refusal = await stage.refused(migration.pullFiles, stage.pull(stage.step(), most({ ms: 700 })))
    expect(refusal?.code).toBe('TIMEOUT')
  })

  test('is asked for with nothing of the node but its name for itself', async () => {
    let headers: IncomingHttpHeaders = {}
    const archive = archiveOf([{ name: 'x', content: 'x' }])
    stage.answers.set('/archive?token=t', (request, response) => {
      headers = request.headers
      response.writeHead(200, { 'set-cookie': 'a=b' }).end(archive)
    })
    const stepId = stage.step()
    await stage.ask(migration.pullFiles, stage.pull(stepId, {}, '/archive?token=t'))
    expect(Object.keys(headers).sort()).toEqual(['accept', 'accept-encoding', 'connection', 'host', 'user-agent'])
    await stage.ask(migration.wipeFiles, { stepId })
  })
})

describe('a panel-server.yaml', () => {
  const GOOD = 'name: Lobby\ntemplate: minecraft\nlimits: {memoryMb: 1024, diskMb: 0}\nports: [25565]\n'
  const laughs = [
    'a: &a [x,x,x,x,x,x,x,x,x,x]',
    ...'bcdefghi'.split('').map((name, at) => {
      const before = 'abcdefghi'[at]
      return `${name}: &${name} [${Array.from({ length: 10 }, () => `*${before}`).join(',')}]`
    }),
  ].join('\n')

  const HOSTILE: readonly (readonly [string, string])[] = [
    ['many aliases', `${GOOD}${laughs}\n`],
    ['deep lists', `${GOOD}variables: ${'['.repeat(20_000)}\n`],
    ['deep maps', `${GOOD}variables: ${'{a: '.repeat(10_000)}\n`],
    ['an alias to itself', `${GOOD}variables: &v {A: *v}\n`],
    ['a tag', `${GOOD}variables: !!js/function 'x'\n`],
    ['__proto__', `${GOOD}__proto__: {polluted: 1}\n`],
    ['__proto__ as a variable', `${GOOD}variables: {__proto__: {polluted: 1}}\n`],
    ['a key twice', `${GOOD}name: Other\n`],
    ['two documents', `${GOOD}---\n${GOOD}`],
    ['a key that nobody knows', `${GOOD}startup: rm -rf /\n`],
    ['a list', '- a\n- b\n'],
    ['nothing', ''],
    ['bytes', '\0\u0001\u0002'],
    ['a name of 4,000 characters', GOOD.replace('Lobby', 'x'.repeat(4000))],
    ['a port below 1', GOOD.replace('25565', '0')],
    ['1,000 ports', GOOD.replace('25565', Array.from({ length: 1000 }, (_, at) => at + 1).join(','))],
    ['a size below zero', GOOD.replace('1024', '-1')],
    ['a variable with a name of a shell', `${GOOD}variables: {"A;rm": x}\n`],
  ]

  const list = async () => await stage.ask(migration.listDirectory, { path: stage.root, after: null, limit: 100 })

  test.each(HOSTILE)('with %s is a row that says why', async (_, text) => {
    mkdirSync(join(stage.root, 'bad'))
    mkdirSync(join(stage.root, 'good'))
    writeFileSync(join(stage.root, 'bad', 'panel-server.yaml'), text)
    writeFileSync(join(stage.root, 'good', 'panel-server.yaml'), GOOD)
    const { servers } = await list()
    expect(servers).toMatchObject([
      { folder: 'bad', manifest: null, bytes: null, problem: expect.stringContaining('panel-server.yaml') },
      { folder: 'good', problem: null, manifest: { name: 'Lobby' } },
    ])
    expect(Reflect.get({}, 'polluted')).toBeUndefined()
  })

  test('that is no file, or too large, is a row that says why', async () => {
    const manifest = (name: string): string => {
      mkdirSync(join(stage.root, name))
      return join(stage.root, name, 'panel-server.yaml')
    }
    mkdirSync(manifest('folder'))
    execFileSync('mkfifo', [manifest('pipe')])
    symlinkSync('/dev/zero', manifest('zero'))
    symlinkSync('/etc/passwd', manifest('passwd'))
    const large = manifest('large')
    writeFileSync(large, GOOD)
    truncateSync(large, 2 ** 30)
    symlinkSync('loop', join(stage.root, 'loop'))
    symlinkSync('/', join(stage.root, 'top'))
    mkdirSync(Buffer.concat([Buffer.from(`${stage.root}/`), Buffer.from([0x62, 0xe9])]))
    const { servers } = await list()
    expect(servers.length).toBe(8)
    for (const { problem, manifest: read } of servers) {
      expect(problem).toBeTruthy()
      expect(read).toBeNull()
    }
    expect(JSON.stringify(servers)).not.toContain('root:')
    rmSync(join(stage.root, 'pipe'), { recursive: true })
  })

  test('keeps versions as they are written', async () => {
    mkdirSync(join(stage.root, 'a'))
    writeFileSync(
      join(stage.root, 'a', 'panel-server.yaml'),
      `${GOOD}variables: {VERSION: 1.20, SLOTS: 20, ON: true}\n`,
    )
    const { servers } = await list()
    expect(servers[0]?.manifest?.variables).toEqual({ VERSION: '1.20', SLOTS: 20, ON: true })
  })
})
