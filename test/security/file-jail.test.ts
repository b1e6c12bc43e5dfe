import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { percentEncoded } from '../../src/shared/kernel/path-text.ts'
import { eventually } from '../daemon/gateway-stage.ts'
import { enterFileStage, type FileAnswer, type FileStage } from '../daemon/servers/file-stage.ts'
import { skippedUnless } from '../skips.ts'
import { forgeTar } from './tar-forge.ts'

let stage: FileStage
let ask: FileStage['ask']
/** Beside the folder of the server, by the same user on the same disk: what a way out would hit. */
let outside: string
const at = (...names: string[]): string => join(stage.folder, ...names)

beforeAll(async () => {
  stage = await enterFileStage({ diskMb: 256 })
  ask = stage.ask
  outside = join(stage.panel.dataDir, 'outside')
})
afterAll(async () => {
  clear()
  await stage.close()
})

function clear(): void {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
}

beforeEach(() => {
  rmSync(outside, { recursive: true, force: true })
  mkdirSync(join(outside, 'folder', 'deep'), { recursive: true })
  writeFileSync(join(outside, 'secret'), 'precious')
  writeFileSync(join(outside, 'folder', 'deep', 'file'), 'precious too')
  clear() // deeper than paths can be
  mkdirSync(at('home', 'inner'), { recursive: true })
  writeFileSync(at('home', 'file'), 'own')
})

/** What lies outside: names, kinds, modes, owners, names of each file, times of writing, content. */
function outsideNow(): string {
  const entries = ['', ...readdirSync(outside, { recursive: true, encoding: 'utf8' }).sort()]
  const facts = entries.map((name) => {
    const { mode, uid, gid, nlink, mtimeMs, size } = lstatSync(join(outside, name))
    return [name, mode, uid, gid, nlink, mtimeMs, size].join(' ')
  })
  return [...facts, readFileSync(join(outside, 'secret'), 'utf8')].join('\n')
}

const query = percentEncoded

/** Every way in which a path gets in, each with this one. */
const WAYS_IN: readonly (readonly [name: string, (path: string) => Promise<FileAnswer>])[] = [
  ['list', (path) => ask('GET', `?path=${query(path)}`)],
  ['stat', (path) => ask('GET', `/stat?path=${query(path)}`)],
  ['usage', (path) => ask('GET', `/usage?path=${query(path)}`)],
  ['search', (path) => ask('GET', `/search?path=${query(path)}&text=precious`)],
  ['create folder', (path) => ask('POST', '/create', { path, isDirectory: true, parents: true })],
  ['create file', (path) => ask('POST', '/create', { path, isDirectory: false, content: 'evil', parents: true })],
  ['write', (path) => ask('POST', '/write', { path, content: 'evil' })],
  ['rename from', (path) => ask('POST', '/rename', { from: path, to: 'taken', replace: true })],
  ['rename to', (path) => ask('POST', '/rename', { from: 'home/file', to: path, replace: true })],
  ['copy from', (path) => ask('POST', '/copy', { from: path, to: 'copied', replace: true })],
  ['copy to', (path) => ask('POST', '/copy', { from: 'home', to: path, replace: true })],
  ['permissions', (path) => ask('POST', '/permissions', { path, mode: '777', recursive: true })],
  ['link', (path) => ask('POST', '/link', { path, target: 'home' })],
  ['checksums', (path) => ask('POST', '/checksums', { paths: [path] })],
  ['delete', (path) => ask('DELETE', `/delete?path=${query(path)}`)],
  ['delete many', (path) => ask('POST', '/delete', { paths: [path] })],
]

/** Sends a path in every way; nothing outside is changed, and no answer shows what is there. */
async function attack(path: string): Promise<void> {
  const before = outsideNow()
  for (const [name, send] of WAYS_IN) {
    const answer = await send(path)
    const shown = JSON.stringify(answer.data ?? null)
    expect([name, path, answer.status >= 500 && answer.status !== 507, shown.includes('precious')]).toEqual([
      name,
      path,
      false,
      false,
    ])
    expect([name, path, outsideNow()]).toEqual([name, path, before])
  }
}

/** The attacks by a path alone. */
const PATHS: readonly (readonly [title: string, path: () => string])[] = [
  ['the folder above', () => '..'],
  ['the folder above, by way of one below', () => 'home/../../outside/secret'],
  ['many steps up', () => `${'../'.repeat(40)}etc/passwd`],
  ['steps up that are written with a percent sign', () => '%2e%2e/outside/secret'],
  ['steps up with backslashes', () => '..\\..\\outside\\secret'],
  ['three dots and more', () => '.../....//outside'],
  ['an absolute path', () => join(outside, 'secret')],
  ['the folder of all processes', () => '/proc/self/root/etc/passwd'],
  ['two slashes in front', () => `//${outside}/secret`],
  ['a NUL in the middle', () => 'home/file\0/../../../outside/secret'],
  ['a NUL at the end', () => 'home/file\0'],
  ['line breaks', () => '..\n/outside'],
  ['a dot and a space', () => '.. /outside/secret'],
  ['a full-width full stop', () => '\uff0e\uff0e/outside/secret'],
  ['a slash of another script', () => '..\u2215outside\u2215secret'],
  ['overlong bytes of a slash', () => '..\udcc0\udcafoutside'],
  ['overlong bytes of a dot', () => '\udcc0\udcae\udcc0\udcae/outside'],
  ['bytes that are text by themselves', () => '\udc2e\udc2e/outside'],
  ['escaped bytes that are UTF-8', () => 'home/\udcc3\udca9'],
  ['half a character', () => 'home/\ud83d'],
  ['a name of 256 bytes', () => 'x'.repeat(256)],
  ['a path of 8,000 bytes', () => 'd/'.repeat(4000)],
  ['a path of 4,096 characters', () => `${'d/'.repeat(2047)}x`],
  ['the folder itself', () => './/.'],
  ["a name of the agent's own", () => '.panel-upload-00000000'],
  ['nothing', () => ''],
]

/** The attacks by what a game has put into its folder; the path leads through it. */
const PLACES: readonly (readonly [title: string, prepare: () => string])[] = [
  ['a link to a file', () => linked('secret', '')],
  ['a link to a folder, and what is in it', () => linked('folder', '/deep/file')],
  ['a link to a folder, as the last name', () => linked('folder', '')],
  ['a link to a folder with a slash behind', () => linked('folder', '/')],
  ['a link by steps up', () => made('up', '../../../outside/folder', '/deep')],
  [
    'a link to a link',
    () => {
      symlinkSync(join(outside, 'folder'), at('first'))
      return made('second', 'first', '/deep/file')
    },
  ],
  ['a link that leads to itself', () => made('loop', 'loop', '/x')],
  ['a link to the folder of a process', () => made('proc', '/proc/self/cwd', '/etc')],
  ['a link to an open file', () => made('fd', '/proc/self/fd/0', '')],
  ['a link in the middle, and steps up behind it', () => linked('folder', '/../secret')],
  ['a link to nothing', () => made('none', '/nowhere/at/all', '/x')],
  ['a FIFO', () => fifo('')],
  ['a FIFO as a folder', () => fifo('/x')],
  ['a file as a folder', () => 'home/file/../../outside'],
  ['a folder that is closed', () => closed()],
]

function fifo(more: string): string {
  execFileSync('mkfifo', [at('fifo')])
  return `fifo${more}`
}

function closed(): string {
  chmodSync(at('home', 'inner'), 0)
  return 'home/inner/../x'
}

function linked(target: string, more: string): string {
  return made('way-out', join(outside, target), more)
}

function made(name: string, target: string, more: string): string {
  symlinkSync(target, at(name))
  return `${name}${more}`
}

const isRoot = process.getuid?.() === 0
const NO_MOUNTS = skippedUnless(canMount(), 'the right to mount')

/** Root in a container often may not. */
function canMount(): boolean {
  const folder = mkdtempSync(join(tmpdir(), 'panel-mount-'))
  try {
    execFileSync('mount', ['--bind', folder, folder], { stdio: 'ignore' })
    execFileSync('umount', [folder])
    return true
  } catch {
    return false
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe('a path', () => {
  test.each(PATHS)('with %s leads nowhere else', async (_, path) => attack(path()))
  test.each(PLACES)('through %s leads nowhere else', async (_, prepare) => attack(prepare()))

  test('of any characters leads nowhere else', async () => {
    const piece = fc.constantFrom(
      '..',
      '.',
      '',
      'home',
      'file',
      'way-out',
      '\0',
      '\\',
      '%2e',
      '\udc80',
      '\udcff',
      '\ud800',
      'é',
      '~',
      '*',
      '$(id)',
      '\n',
    )
    symlinkSync(outside, at('way-out'))
    const before = outsideNow()
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 8 }), fc.nat(WAYS_IN.length - 1), async (pieces, which) => {
        const answer = await WAYS_IN[which]?.[1](pieces.join('/'))
        if (answer !== undefined && answer.status >= 500 && answer.status !== 507)
          throw new Error(`answered ${answer.status}`)
        if (JSON.stringify(answer?.data ?? null).includes('precious')) throw new Error('shown what is outside')
        if (outsideNow() !== before) throw new Error('something outside has changed')
        mkdirSync(at('home'), { recursive: true })
        if (!existsSync(at('way-out'))) symlinkSync(outside, at('way-out'))
      }),
      { numRuns: 150 },
    )
  })
})

describe('what a game has put there', () => {
  test('a tree with links to the outside is copied, measured, searched, changed and deleted as what it is', async () => {
    mkdirSync(at('tree'))
    symlinkSync(outside, at('tree', 'out'))
    symlinkSync(join(outside, 'secret'), at('tree', 'secret'))
    const before = outsideNow()
    expect((await ask('POST', '/copy', { from: 'tree', to: 'copy' })).status).toBe(200)
    expect(lstatSync(at('copy', 'out')).isSymbolicLink()).toBe(true)
    expect((await ask('GET', '/usage?path=tree&depth=9')).data).toMatchObject({ entries: 2, folders: [] })
    expect((await ask('GET', '/search?path=tree&text=precious')).data.hits).toEqual([])
    expect((await ask('POST', '/checksums', { paths: ['tree'] })).data.files).toEqual([])
    expect((await ask('POST', '/permissions', { path: 'tree', mode: '777', recursive: true })).status).toBe(200)
    expect((await ask('DELETE', '/delete?path=tree')).data.entries).toBe(3)
    expect(outsideNow()).toBe(before)
  })

  test('a second name of a file outside is neither written through nor given a mode', async () => {
    linkSync(join(outside, 'secret'), at('alias'))
    const { mode } = statSync(join(outside, 'secret'))
    expect(await ask('POST', '/permissions', { path: 'alias', mode: '777' })).toMatchObject({
      code: 'FILE_PATH_INVALID',
    })
    const all = await ask('POST', '/permissions', { path: 'home', mode: '700', recursive: true })
    expect(all.status).toBe(200)
    expect((await ask('POST', '/write', { path: 'alias', content: 'evil' })).status).toBe(200)
    expect([readFileSync(join(outside, 'secret'), 'utf8'), statSync(join(outside, 'secret')).mode]).toEqual([
      'precious',
      mode,
    ])
    linkSync(join(outside, 'secret'), at('alias2'))
    expect((await ask('DELETE', '/delete?path=alias2')).data).toEqual({ entries: 1 })
    expect(readFileSync(join(outside, 'secret'), 'utf8')).toBe('precious')
  })

  test('sockets and devices are listed and deleted, and never opened or copied', async () => {
    const socket = createServer()
    await new Promise<void>((resolve) => socket.listen(at('home', 'socket'), resolve))
    if (isRoot) execFileSync('mknod', [at('home', 'zero'), 'c', '1', '5'])
    const { data } = await ask('POST', '/copy', { from: 'home', to: 'copy' })
    expect(data.problemCount).toBe(isRoot ? 2 : 1)
    expect(readdirSync(at('copy')).sort()).toEqual(['file', 'inner'])
    expect((await ask('POST', '/checksums', { paths: ['home'] })).data.files).toHaveLength(1)
    expect((await ask('POST', '/checksums', { paths: ['home/socket'] })).code).toBe('FILE_PATH_INVALID')
    expect((await ask('DELETE', '/delete?path=home')).status).toBe(200)
    await new Promise((resolve) => socket.close(resolve))
  })

  test('names that are no UTF-8 are listed, renamed and deleted by their bytes', async () => {
    const raw = (name: string): Buffer => Buffer.concat([Buffer.from(`${stage.folder}/`), Buffer.from(name, 'latin1')])
    writeFileSync(raw('a\xff'), 'x')
    mkdirSync(raw('d\xc3'))
    writeFileSync(raw('d\xc3/in\x80'), 'inside')
    const { data } = await ask('GET', '')
    expect(data.files.map(({ name }: { name: string }) => name)).toEqual(['a\udcff', 'd\udcc3', 'home'])
    expect((await ask('GET', '?path=/d%C3')).data.files[0]).toMatchObject({ path: '/d\udcc3/in\udc80', size: 6 })
    expect((await ask('POST', '/rename', { from: 'a\udcff', to: 'b\udcfe' })).status).toBe(200)
    expect((await ask('DELETE', '/delete?path=b%FE')).status).toBe(200)
    expect((await ask('POST', '/copy', { from: 'd\udcc3', to: 'e\udcc3' })).status).toBe(200)
    expect(readFileSync(raw('e\xc3/in\x80'), 'utf8')).toBe('inside')
    expect((await ask('POST', '/delete', { paths: ['d\udcc3', 'e\udcc3'] })).data).toMatchObject({ problemCount: 0 })
    expect(readdirSync(stage.folder)).toEqual(['home'])
  })

  test('names that are names alone stay so', async () => {
    const names = [
      '$(touch x)',
      '; rm -rf .',
      '-rf',
      '*',
      'é',
      'e\u0301',
      '\u202egnp.exe',
      'a\nb',
      '\u001b[2J',
      ' ',
      '~',
      'CON',
    ]
    for (const name of names)
      expect((await ask('POST', '/write', { path: `home/${name}`, content: name })).status).toBe(200)
    for (const name of names) {
      expect((await ask('POST', '/delete', { paths: [`home/${name}`] })).data.entries).toBe(1)
    }
    expect(readdirSync(at('home')).sort()).toEqual(['file', 'inner'])
  })

  test('a sparse file of 4 GiB is copied without its holes', async () => {
    writeFileSync(at('sparse'), '')
    truncateSync(at('sparse'), 4 * 1024 ** 3)
    expect((await ask('POST', '/copy', { from: 'sparse', to: 'copy' })).status).toBe(200)
    expect(statSync(at('copy'))).toMatchObject({ size: 4 * 1024 ** 3, blocks: 0 })
  })

  test.runIf(NO_MOUNTS === '')(`what is mounted into the folder is not entered${NO_MOUNTS}`, async () => {
    mkdirSync(at('mounted'))
    execFileSync('mount', ['--bind', join(outside, 'folder'), at('mounted')])
    try {
      await attack('mounted/deep')
      const before = outsideNow()
      expect((await ask('DELETE', '/delete?path=mounted')).code).toBe('FILE_PATH_INVALID')
      expect((await ask('POST', '/copy', { from: 'mounted', to: 'x' })).code).toBe('FILE_PATH_INVALID')
      expect((await ask('POST', '/permissions', { path: 'mounted', mode: '700', recursive: true })).code).toBe(
        'FILE_PATH_INVALID',
      )
      expect(outsideNow()).toBe(before)
    } finally {
      execFileSync('umount', [at('mounted')])
    }
  })
})

test('a game that swaps a folder and a link to the outside all the time leads nothing there', async () => {
  mkdirSync(at('spin', 'real', 'deep'), { recursive: true })
  writeFileSync(at('spin', 'real', 'deep', 'file'), 'own')
  symlinkSync(join(outside, 'folder'), at('spin', 'link'))
  const before = outsideNow()
  const program = `
    const { renameSync } = require('node:fs')
    const move = (a, b) => { try { renameSync(a, b) } catch {} }
    for (;;) { move('real', 'x'); move('link', 'real'); move('real', 'link'); move('x', 'real') }`
  const game = spawn(process.execPath, ['-e', program], { cwd: at('spin'), stdio: 'ignore' })
  const path = 'spin/real'
  const found = new Set<number>()
  try {
    for (let round = 0; round < 15; round++) {
      const answers = await Promise.all([
        ask('POST', '/write', { path: `${path}/deep/file`, content: 'own' }),
        ask('POST', '/permissions', { path, mode: '700', recursive: true }),
        ask('POST', '/copy', { from: 'spin', to: `copy-${round}` }),
        ask('POST', '/checksums', { paths: ['spin'] }),
        ask('POST', '/create', { path: `${path}/deep/new-${round}`, isDirectory: true }),
        ask('POST', '/rename', { from: `${path}/deep/new-${round - 1}`, to: `home/got-${round}` }),
        ask('DELETE', `/delete?path=${path}/deep/got-${round}`),
        ask('GET', `/search?path=spin&text=precious`),
      ])
      for (const { status, data } of answers) {
        found.add(status)
        expect(JSON.stringify(data ?? null)).not.toContain('precious')
      }
      await ask('DELETE', `/delete?path=copy-${round}`)
    }
    expect(outsideNow()).toBe(before)
  } finally {
    game.kill('SIGKILL')
  }
  expect(found).toContain(200)
  expect([...found].filter((status) => status >= 500)).toEqual([])
})

describe('a game that moves folders and swaps links all the time', () => {
  const NAMES = ['real', 'link', 'x', 'y', 'deep', 'file', 'secret', 'alias', 'fifo', '..', 'a.tar', 'd\udcff']
  const path = fc
    .array(fc.constantFrom(...NAMES), { minLength: 1, maxLength: 4 })
    .map((names) => `spin/${names.join('/')}`)
  const operation = fc.oneof(
    fc.record({ way: fc.nat(WAYS_IN.length - 1), path }),
    fc.record({ way: fc.constantFrom('extract', 'compress', 'pull', 'job', 'move'), path, to: path }),
  )

  type Operation = typeof operation extends fc.Arbitrary<infer One> ? One : never

  test('makes nothing of random operations reach the outside: REST, archives, pulls and jobs', () => randomly(12))
  test('does so in a long run as well', { tags: ['long'], timeout: 600_000 }, () => randomly(300))

  async function randomly(numRuns: number): Promise<void> {
    const source = createHttpServer((_, answer) => void answer.end('fetched'))
    await new Promise<void>((resolve) => source.listen(0, '127.0.0.2', resolve))
    const url = `http://127.0.0.2:${(source.address() as AddressInfo).port}/file`
    mkdirSync(at('spin'))
    linkSync(join(outside, 'secret'), at('spin', 'alias'))
    writeFileSync(
      join(outside, 'in.tar'),
      forgeTar([
        { name: 'deep/', type: '5' },
        { name: 'deep/file', content: 'unpacked' },
        { name: 'link', type: '2', target: 'real' },
        { name: 'real/secret', content: 'unpacked' },
        { name: 'x', type: '1', target: 'deep/file' },
      ]),
    )
    const before = canaries()
    const game = spawn(process.execPath, ['-e', MOVING, outside], {
      cwd: at('spin'),
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const statuses = new Set<number>()
    const send = async (one: Operation): Promise<void> => {
      const answer = await sendOne(one, url)
      statuses.add(answer.status)
      if (answer.status >= 500 && ![502, 503, 504, 507].includes(answer.status)) throw new Error(JSON.stringify(answer))
      if (JSON.stringify(answer.data ?? null).includes('precious') && !JSON.stringify(one).includes('alias'))
        throw new Error('shown what is outside')
    }
    try {
      await once(game.stdout, 'data')
      await fc.assert(
        fc.asyncProperty(fc.array(operation, { minLength: 8, maxLength: 16 }), async (operations) => {
          await Promise.all(operations.map(send))
          if (canaries() !== before) throw new Error(`something outside has changed:\n${canaries()}\n${before}`)
        }),
        { numRuns, endOnFailure: true },
      )
      await eventually(
        () => ask('GET', '?path=/'),
        ({ status }) => status === 200,
      )
      expect(canaries()).toBe(before)
      expect(statuses).toContain(200)
    } finally {
      game.kill('SIGKILL')
      source.closeAllConnections()
      await new Promise((resolve) => source.close(resolve))
    }
  }

  async function sendOne(one: Operation, url: string): Promise<FileAnswer> {
    if (!('to' in one)) return (await WAYS_IN[one.way]?.[1](one.path)) ?? (await ask('GET', ''))
    const { way, path, to } = one
    if (way === 'extract')
      return await ask('POST', '/decompress', { archivePath: 'spin/a.tar', targetPath: to, replace: true })
    if (way === 'compress')
      return await ask('POST', '/compress', { paths: [path, 'spin'], archiveName: `/${to}.tar`, replace: true })
    if (way === 'pull') return await ask('POST', '/pull', { url, path, name: 'pulled', replace: true })
    if (way === 'move') return await ask('POST', '/rename', { from: path, to, replace: true })
    return await ask('POST', '/jobs', { work: { kind: 'copy', from: path, to, replace: true } })
  }

  /**
   * What lies outside, to the byte and the inode; a file whose owner or mode is touched has another time of change. Of the file with a
   * further name in the folder that time and the number of names say nothing: that name may be moved and deleted.
   */
  function canaries(): string {
    const facts = execFileSync('find', [outside, '-printf', '%P %y %i %n %m %U %G %s %T@ %C@ %l\n'], {
      encoding: 'utf8',
    })
    const own = facts.replace(/^secret f .*$/m, (line) =>
      line
        .split(' ')
        .filter((_, at) => at !== 3 && at !== 9)
        .join(' '),
    )
    const files = facts.split('\n').filter((line) => line.split(' ')[1] === 'f')
    return [own, ...files.map((line) => readFileSync(join(outside, line.split(' ')[0] ?? ''), 'latin1'))].join('\n')
  }
})

/** Runs in the folder that is attacked; its argument is the outside. */
const MOVING = `
  const fs = require('node:fs')
  const [, outside] = process.argv
  const attempt = (work) => { try { work() } catch {} }
  const pick = (list) => list[Math.floor(Math.random() * list.length)]
  const names = ['real', 'link', 'x', 'y', 'deep', Buffer.from('d\\xff', 'latin1')]
  const archive = fs.readFileSync(outside + '/in.tar')
  const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW } = fs.constants
  // By its handle: what the game does itself must not go through its own links.
  const inFolder = (name, work) =>
    attempt(() => {
      const fd = fs.openSync(name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW)
      try { work('/proc/self/fd/' + fd) } finally { fs.closeSync(fd) }
    })
  const make = () => {
    fs.rmSync('fresh', { recursive: true, force: true })
    fs.mkdirSync('fresh/deep', { recursive: true })
    fs.writeFileSync('fresh/deep/file', 'own')
    fs.symlinkSync(outside + '/secret', 'fresh/secret')
    fs.symlinkSync(outside + '/folder', 'fresh/deep/x')
    attempt(() => fs.renameSync('fresh', 'real'))
    attempt(() => fs.writeFileSync('a.tar', archive, { flag: 'wx' }))
    attempt(() => fs.symlinkSync(outside, 'link'))
    attempt(() => fs.symlinkSync('../../outside/folder', 'y'))
  }
  make()
  process.stdout.write('ready')
  for (let round = 0; ; round++) {
    attempt(() => fs.renameSync(pick(names), pick(names)))
    if (round % 3 === 0) inFolder('real', (real) => fs.renameSync(real + '/' + pick(['deep', 'secret', 'x']), pick(names)))
    if (round % 50 === 0) attempt(make)
  }
`
