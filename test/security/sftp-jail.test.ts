import { execFileSync, spawn } from 'node:child_process'
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import type { Client } from 'ssh2'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { connect } from '../daemon/servers/sftp-client.ts'
import { SftpStage } from '../daemon/servers/sftp-stage.ts'
import { firstText, SftpWire, text, uint32, uint64, WIRE, type WireAnswer } from './sftp-wire.ts'

const EMPTY = uint32(0)
const READ = 1
const WRITE = 2
const APPEND = 4
const CREATE = 8
const TRUNCATE = 16

let stage: SftpStage
let client: Client
let wire: SftpWire
/** Beside the folder of the server, by the same user on the same disk: what a way out would hit. */
let outside: string
const at = (name: string): string => join(stage.folder, name)

beforeAll(async () => {
  stage = await SftpStage.enter()
  outside = join(stage.panel.dataDir, 'outside')
  client = await connect(stage)
  wire = await SftpWire.open(client)
})
afterAll(async () => {
  client?.end()
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  await stage?.close()
})

beforeEach(() => {
  rmSync(outside, { recursive: true, force: true })
  mkdirSync(join(outside, 'folder', 'deep'), { recursive: true })
  writeFileSync(join(outside, 'secret'), 'precious')
  writeFileSync(join(outside, 'folder', 'deep', 'file'), 'precious too')
  writeFileSync(join(outside, 'kept'), 'precious as well')
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  plant()
})

/** What a game may have put into its folder; taken away by an attack, it is put back for the next. */
function plant(): void {
  mkdirSync(at('home/inner'), { recursive: true })
  writeFileSync(at('home/file'), 'own')
  const links: Readonly<Record<string, string>> = {
    file: join(outside, 'secret'),
    folder: join(outside, 'folder'),
    up: '../../../outside/folder',
    loop: 'loop',
    proc: '/proc/self/root',
    cwd: '/proc/self/cwd',
    fd: '/proc/self/fd/0',
    none: '/nowhere/at/all',
    second: 'folder',
    way: '../../../outside',
  }
  for (const [name, target] of Object.entries(links)) {
    if (linkOf(at(name)) === target) continue
    rmSync(at(name), { recursive: true, force: true })
    symlinkSync(target, at(name))
  }
  if (lstatSync(at('fifo'), { throwIfNoEntry: false })?.isFIFO() !== true) {
    rmSync(at('fifo'), { recursive: true, force: true })
    execFileSync('mkfifo', [at('fifo')])
  }
}

function linkOf(path: string): string | undefined {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() === true ? readlinkSync(path) : undefined
}

/** What lies outside: names, kinds, modes, owners, times of writing, content. */
function outsideNow(): string {
  const entries = ['', ...readdirSync(outside, { recursive: true, encoding: 'utf8' }).sort()]
  const facts = entries.map((name) => {
    const { mode, uid, gid, mtimeMs, size, nlink } = lstatSync(join(outside, name))
    return [name, mode, uid, gid, mtimeMs, size, nlink].join(' ')
  })
  return [...facts, readFileSync(join(outside, 'secret'), 'utf8')].join('\n')
}

const closed = async (answer: WireAnswer): Promise<WireAnswer> => {
  if (answer.type === WIRE.handle) await wire.ask(4, text(firstText(answer.body)))
  return answer
}
const opened = async (path: Buffer, flags: number, work: (handle: Buffer) => Promise<WireAnswer>) => {
  const answer = await wire.ask(3, text(path), uint32(flags), EMPTY)
  if (answer.type !== WIRE.handle) return answer
  const handle = text(firstText(answer.body))
  const result = await work(handle)
  await wire.ask(4, handle)
  return result
}
const evil = (handle: Buffer) => wire.ask(6, handle, uint64(0n), text('evil'))
const OWN = Buffer.from('/home/file')

/** Every way in which a path gets in. */
const WAYS_IN: readonly (readonly [name: string, send: (path: Buffer) => Promise<WireAnswer>])[] = [
  ['read', (path) => opened(path, READ, (handle) => wire.ask(5, handle, uint64(0n), uint32(1000)))],
  ['write', (path) => opened(path, WRITE, evil)],
  ['create', (path) => opened(path, WRITE | CREATE | TRUNCATE, evil)],
  ['append', (path) => opened(path, WRITE | APPEND | CREATE, evil)],
  ['read and write', (path) => opened(path, READ | WRITE, (handle) => wire.ask(10, handle, uint32(1), uint64(0n)))],
  ['list', (path) => listed(path)],
  ['stat', (path) => wire.ask(17, text(path))],
  ['lstat', (path) => wire.ask(7, text(path))],
  ['realpath', (path) => wire.ask(16, text(path))],
  ['mode', (path) => wire.ask(9, text(path), uint32(4), uint32(0o777))],
  ['size', (path) => wire.ask(9, text(path), uint32(1), uint64(1n))],
  ['times', (path) => wire.ask(9, text(path), uint32(8), uint32(1), uint32(1))],
  ['owner', (path) => wire.ask(9, text(path), uint32(2), uint32(0), uint32(0))],
  ['folder', (path) => wire.ask(14, text(path), EMPTY)],
  ['link', (path) => wire.ask(20, text('home'), text(path))],
  ['link to', (path) => wire.ask(20, text(path), text('/home/new-link'))],
  ['rename to', (path) => wire.ask(18, text(OWN), text(path))],
  ['replace', (path) => wire.ask(200, text('posix-rename@openssh.com'), text(OWN), text(path))],
  ['rename from', (path) => wire.ask(18, text(path), text('/home/taken'))],
  ['remove folder', (path) => wire.ask(15, text(path))],
  ['remove', (path) => wire.ask(13, text(path))],
]

async function listed(path: Buffer): Promise<WireAnswer> {
  const answer = await wire.ask(11, text(path))
  if (answer.type !== WIRE.handle) return answer
  const names = await wire.ask(12, text(firstText(answer.body)))
  await closed(answer)
  return names
}

/** Sends a path in every way: nothing outside is changed, and no answer shows what is there. */
async function attack(path: string | Buffer): Promise<void> {
  const bytes = Buffer.from(path as string)
  const before = outsideNow()
  for (const [name, send] of WAYS_IN) {
    const { type, body } = await send(bytes)
    const isListed = type === WIRE.name && name === 'list'
    const shown = body.includes('precious') || (isListed && /kept|deep|bin|etc/.test(body.toString('latin1')))
    expect([name, type > 0, shown, outsideNow()], bytes.toString('latin1').slice(0, 100)).toEqual([
      name,
      true,
      false,
      before,
    ])
    plant()
  }
}

const PATHS: readonly (readonly [title: string, path: () => string | Buffer])[] = [
  ['the folder above', () => '..'],
  ['the folder above, by way of one below', () => 'home/../../outside/secret'],
  ['many steps up', () => `${'../'.repeat(40)}etc/passwd`],
  ['steps up behind a slash', () => '/../../../outside/secret'],
  ['steps up that are written with a percent sign', () => '%2e%2e/outside/secret'],
  ['steps up with backslashes', () => '..\\..\\outside\\secret'],
  ['an absolute path', () => join(outside, 'secret')],
  ['the folder of all processes', () => '/proc/self/root/etc/passwd'],
  ['two slashes in front', () => `//${outside}/secret`],
  ['a NUL in the middle', () => 'home/file\0/../../../outside/secret'],
  ['a NUL at the end', () => 'home/file\0'],
  ['overlong bytes of a slash', () => Buffer.from('..\xc0\xafoutside', 'latin1')],
  ['overlong bytes of a dot', () => Buffer.from('\xc0\xae\xc0\xae/outside', 'latin1')],
  ['bytes that are no text', () => Buffer.from('home/\xff\xfe', 'latin1')],
  ['a name of 256 bytes', () => 'x'.repeat(256)],
  ['a path of 8,000 bytes', () => 'd/'.repeat(4000)],
  ['a path of 200,000 bytes', () => 'd/'.repeat(100_000)],
  ["a name of the agent's own", () => '.panel-upload-00000000'],
  ['the folder of the server itself', () => '/'],
  ['nothing', () => ''],
  ['a link to a file', () => 'file'],
  ['a link to a folder', () => 'folder'],
  ['a link to a folder, and what is in it', () => 'folder/deep/file'],
  ['a link to a folder with a slash behind', () => 'folder/'],
  ['a link by steps up', () => 'up/deep/file'],
  ['a link to a link', () => 'second/deep/file'],
  ['a link to the folder above', () => 'way/secret'],
  ['a link, and steps up behind it', () => 'folder/../secret'],
  ['a link that leads to itself', () => 'loop/x'],
  ['a link to the folder of all', () => 'proc/etc/passwd'],
  ['a link to the folder of the agent', () => 'cwd/package.json'],
  ['a link to an open file', () => 'fd'],
  ['a link to nothing', () => 'none/x'],
  ['a FIFO', () => 'fifo'],
  ['a FIFO as a folder', () => 'fifo/x'],
  ['a file as a folder', () => 'home/file/../../outside'],
]

describe('a path over SFTP', () => {
  test.each(PATHS)('with %s leads nowhere else', async (_, path) => attack(path()))

  test('of links that clients make leads nowhere else', async () => {
    const before = outsideNow()
    for (const target of [
      `${outside}/secret`,
      '../../../outside/secret',
      'home/../../../../outside',
      '/../../x',
      'a\0b',
    ]) {
      await wire.ask(20, text(target), text('/home/made'))
      const read = await opened(Buffer.from('/home/made'), READ, (handle) =>
        wire.ask(5, handle, uint64(0n), uint32(100)),
      )
      expect([target, read.body.includes('precious'), outsideNow()]).toEqual([target, false, before])
      const link = linkOf(at('home/made'))
      if (link !== undefined) expect(join('/home', link), link).not.toContain('..')
      await wire.ask(13, text('/home/made'))
    }
  })

  test('of a second name of a file outside changes nothing there', async () => {
    for (const [name, send] of WAYS_IN) {
      rmSync(at('alias'), { force: true })
      linkSync(join(outside, 'secret'), at('alias'))
      const { mode, uid, mtimeMs } = lstatSync(join(outside, 'secret'))
      await send(Buffer.from('alias'))
      const now = lstatSync(join(outside, 'secret'))
      const facts = [readFileSync(join(outside, 'secret'), 'utf8'), now.mode, now.uid, now.mtimeMs]
      expect([name, ...facts]).toEqual([name, 'precious', mode, uid, mtimeMs])
      plant()
    }
  })

  test('leads nowhere else while the game exchanges a folder for a link, again and again', {
    tags: ['long'],
  }, async () => {
    mkdirSync(at('swap'))
    mkdirSync(at('real'))
    symlinkSync(join(outside, 'folder'), at('evil'))
    // Each name is at times a folder of the server and at times the way out.
    const game = spawn(
      'sh',
      ['-c', 'while :; do mv -T swap a && mv -T evil swap && mv -T swap evil && mv -T a swap; done'],
      {
        cwd: stage.folder,
        stdio: 'ignore',
      },
    )
    const before = outsideNow()
    try {
      for (let round = 0; round < 150; round++) {
        const name = Buffer.from(`swap/deep${round % 3 === 0 ? '' : '/file'}`)
        for (const [way, send] of WAYS_IN.slice(0, 15)) {
          const { body } = await send(name)
          expect([way, body.includes('precious')]).toEqual([way, false])
        }
      }
    } finally {
      game.kill('SIGKILL')
    }
    expect(outsideNow()).toBe(before)
  })
})
