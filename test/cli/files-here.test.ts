import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { enterFileStage, type FileStage } from '../daemon/servers/file-stage.ts'
import { SmallDisk } from '../faults/small-disk.ts'
import { DIST } from '../run-panel.ts'
import { runHere } from './run-here.ts'

let stage: FileStage
let home: string
const TMPDIR = process.env['TMPDIR']
const at = (...names: string[]): string => join(stage.folder, ...names)
const here = (...names: string[]): string => join(home, ...names)

beforeAll(async () => {
  stage = await enterFileStage({ diskMb: 64 })
  home = mkdtempSync(join(tmpdir(), 'panel-files-here-'))
  process.env['TMPDIR'] = home // where files are kept that could not be written
})
afterAll(async () => {
  await stage.close()
  if (TMPDIR === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = TMPDIR
  rmSync(home, { recursive: true, force: true })
})
beforeEach(() => {
  for (const folder of [stage.folder, home]) execFileSync('find', [folder, '-mindepth', '1', '-delete'])
})

function run(args: readonly string[], more: Record<string, string> = {}) {
  const env = { HOME: home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.panel.adminToken, ...more }
  return runHere(['files', ...args], { env })
}

/** Each name below a folder, with what is in the file. */
function tree(folder: string): string[] {
  if (!existsSync(folder)) return ['none']
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
  return names
    .map((entry) => {
      const path = join(entry.parentPath, entry.name)
      return `${path.slice(folder.length + 1)}${entry.isFile() ? `=${readFileSync(path, 'utf8')}` : '/'}`
    })
    .sort()
}

function put(root: string, files: Readonly<Record<string, string>>): void {
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(root, name)), { recursive: true })
    writeFileSync(join(root, name), content)
  }
}

describe('files edit', () => {
  /** An editor that types, and does something on the server before it ends. */
  const editor = (script: string): string => {
    writeFileSync(here('editor'), `#!/bin/sh\n${script}\n`)
    chmodSync(here('editor'), 0o755)
    return here('editor')
  }
  const kept = (): string[] =>
    readdirSync(home)
      .filter((name) => name.startsWith('panel-edit-'))
      .map((name) => readFileSync(here(name, 'motd.txt'), 'utf8'))

  test('writes what was typed, and nothing where nothing was', async () => {
    put(stage.folder, { 'motd.txt': 'hello\n' })
    const typed = await run(['edit', `${stage.serverId}:motd.txt`], { EDITOR: editor('echo more >> "$1"') })
    expect(typed.code, typed.stderr).toBe(0)
    expect([readFileSync(at('motd.txt'), 'utf8'), kept()]).toEqual(['hello\nmore\n', []])
    const idle = await run(['edit', `${stage.serverId}:motd.txt`], { EDITOR: editor('true') })
    expect([idle.code, idle.stderr, kept()]).toEqual([0, expect.stringContaining('nothing was changed'), []])
  })

  test.each([
    ['was changed', (file: string) => `echo theirs > ${file}`, 'theirs\n'],
    [
      'was replaced by one of the same size and time',
      (file: string) =>
        `cp -p ${file} ${file}.new; printf 'HELLO\\n' > ${file}.new; touch -r ${file} ${file}.new; mv ${file}.new ${file}`,
      'HELLO\n',
    ],
  ])(
    'refuses to replace a file that %s on the server meanwhile, and keeps what was typed',
    async (_, meanwhile, left) => {
      put(stage.folder, { 'motd.txt': 'hello\n' })
      const EDITOR = editor(`echo mine > "$1"; ${meanwhile(at('motd.txt'))}`)
      const { code, stderr } = await run(['edit', `${stage.serverId}:motd.txt`], { EDITOR })
      expect({ code, stderr }).toEqual({
        code: 7,
        stderr: expect.stringContaining('was changed on the server while you edited it'),
      })
      expect(stderr).toContain('what you have written is kept in ')
      expect([readFileSync(at('motd.txt'), 'utf8'), kept()]).toEqual([left, ['mine\n']])
    },
  )

  test('does not make a file over one that has appeared meanwhile', async () => {
    const EDITOR = editor(`echo mine > "$1"; echo theirs > ${at('motd.txt')}`)
    expect((await run(['edit', '--create', `${stage.serverId}:motd.txt`], { EDITOR })).code).toBe(7)
    expect([readFileSync(at('motd.txt'), 'utf8'), kept()]).toEqual(['theirs\n', ['mine\n']])
  })
})

describe('files sync', () => {
  const SOURCE = { 'same.txt': 'same', 'changed.txt': 'after!', 'new/deep.txt': 'new' }
  const TARGET = { 'same.txt': 'same', 'changed.txt': 'before', 'old/gone.txt': 'old' }
  const STEPS = ['create new/', 'create new/deep.txt', 'update changed.txt', 'delete old/gone.txt', 'delete old/']

  test.each(['up', 'down'] as const)(
    '--dry-run %s shows each difference and changes nothing; then only they are copied',
    async (way) => {
      const [source, target] = way === 'up' ? [here('tree'), at('tree')] : [at('tree'), here('tree')]
      put(source, SOURCE)
      put(target, TARGET)
      const ends = way === 'up' ? [here('tree'), `${stage.serverId}:tree`] : [`${stage.serverId}:tree`, here('tree')]
      const before = [tree(source), tree(target)]
      const dry = await run(['sync', '--dry-run', '--delete', ...ends])
      expect(dry.code, dry.stderr).toBe(0)
      const lines = dry.stderr.trimEnd().split('\n')
      expect(lines.slice(0, -1).sort()).toEqual([...STEPS].sort())
      expect(lines.at(-1)).toBe('5 differences, nothing was changed')
      expect([tree(source), tree(target)]).toEqual(before)
      const done = await run(['sync', '--delete', '--yes', ...ends])
      expect(done.code, done.stderr).toBe(0)
      expect(tree(target)).toEqual(tree(source))
      expect((await run(['sync', '--delete', ...ends])).stderr).toBe('0 differences\n')
    },
  )

  test('--dry-run makes no folder that is not there, on neither side', async () => {
    put(stage.folder, { 'tree/a.txt': 'a' })
    const down = await run(['sync', '--dry-run', `${stage.serverId}:tree`, here('none', 'deep')])
    expect([down.code, down.stderr]).toEqual([0, 'create a.txt\n1 difference, nothing was changed\n'])
    put(here('mine'), { 'b.txt': 'b' })
    const up = await run(['sync', '-n', here('mine'), `${stage.serverId}:none`, '-o', 'json'])
    expect(JSON.parse(up.stdout)).toEqual({
      steps: [{ action: 'create', kind: 'file', path: 'b.txt' }],
      problems: [],
      dryRun: true,
    })
    expect([existsSync(here('none')), existsSync(at('none'))]).toEqual([false, false])
    expect((await run(['sync', `${stage.serverId}:tree`, here('none', 'deep')])).code).toBe(0)
    expect((await run(['sync', here('mine'), `${stage.serverId}:none/deep`])).code).toBe(0)
    expect([tree(here('none')), tree(at('none'))]).toEqual([
      ['deep/', 'deep/a.txt=a'],
      ['deep/', 'deep/b.txt=b'],
    ])
  })
})

test('files sync writes through no link that is here, whatever names a panel lists', async () => {
  put(stage.folder, { 'tree/evil': 'x' })
  mkdirSync(here('tree'))
  mkdirSync(here('outside'))
  symlinkSync(here('outside'), here('tree', 'way'))
  const hostile = createServer(async (request, answer) => {
    const { authorization = '' } = request.headers
    const body = await fetch(`${stage.panel.url}${request.url}`, { headers: { authorization } })
    answer.setHeader('content-type', 'application/json')
    answer.end((await body.text()).replace('"name":"evil"', '"name":"way/evil"'))
  }).listen(0, '127.0.0.1')
  await once(hostile, 'listening')
  const { port } = hostile.address() as AddressInfo
  const done = await run(['sync', `${stage.serverId}:tree`, here('tree')], { PANEL_URL: `http://127.0.0.1:${port}` })
  hostile.close()
  expect([done.code, done.stderr]).toEqual([11, expect.stringContaining('what is no name of a file')])
  expect(readdirSync(here('outside'))).toEqual([])
})

test('files cp and sync to a full disk say so, and leave nothing', async ({ skip }) => {
  const disk = await SmallDisk.mount(1)
  if (disk === undefined) return skip('needs root, to mount a small disk')
  try {
    put(stage.folder, { 'tree/world.dat': 'x'.repeat(2 * 1024 * 1024) })
    const full = [
      14,
      expect.stringMatching(/world\.dat cannot be written: the disk is full .*\n {2}try: free some space/),
    ]
    const copied = await run(['cp', `${stage.serverId}:tree/world.dat`, disk.folder])
    expect([copied.code, copied.stderr]).toEqual(full)
    const synced = await run(['sync', `${stage.serverId}:tree`, disk.folder])
    expect([synced.code, synced.stderr]).toEqual(full)
    expect(readdirSync(disk.folder)).toEqual([])
  } finally {
    await disk.unmount()
  }
})

test('files sum into a file has the bytes of each name, as sha256sum wants them', async () => {
  for (const name of [Buffer.from([0x6e, 0xff, 0xfe]), Buffer.from('line\nbreak'), Buffer.from('grün')])
    writeFileSync(Buffer.concat([Buffer.from(`${stage.folder}/`), name]), 'x')
  const panel = `exec ${process.execPath} ${join(DIST, 'bin', 'panel.js')} files sum ${stage.serverId}:/ > ${here('sums')}`
  const env = { ...process.env, HOME: home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.panel.adminToken }
  await promisify(execFile)('sh', ['-c', panel], { env })
  expect(execFileSync('sha256sum', ['--quiet', '-c', here('sums')], { cwd: stage.folder, encoding: 'utf8' })).toBe('')
})

describe('files find', () => {
  test('ends at its caps and says which of them it was', async () => {
    mkdirSync(at('many'))
    for (let number = 0; number < 600; number++) writeFileSync(at('many', `${number}-${'x'.repeat(20)}`), 'needle')
    const found = async (query: string) => (await stage.ask('GET', `/search?path=many&${query}`)).data
    expect(await found('name=*')).toMatchObject({ cut: 'hits', hits: { length: 500 } })
    expect(await found('text=needle&limit=600')).toMatchObject({ cut: null, hits: { length: 600 } })
    mkdirSync(at('many', 'long'))
    for (let number = 0; number < 900; number++) writeFileSync(at('many', 'long', `${number}-${'x'.repeat(240)}`), '')
    const answer = await found('name=*&limit=5000')
    expect([answer.cut, JSON.stringify(answer).length < 600_000, answer.hits.length < 1500]).toEqual([
      'hits',
      true,
      true,
    ])
    expect(await stage.ask('GET', '/search?path=many&limit=5001')).toMatchObject({
      status: 400,
      code: 'VALIDATION_ERROR',
    })
    expect(await stage.ask('GET', '/search?path=many&maxSeconds=61')).toMatchObject({ status: 400 })
    const cut = await run(['find', `${stage.serverId}:many`, '--name', '*', '--limit', '3', '-o', 'json'])
    expect(cut).toMatchObject({ code: 0, stderr: expect.stringContaining('there is more than the limit shows') })
    expect(JSON.parse(cut.stdout).hits).toHaveLength(3)
  })

  test('leaves files out that are larger than it looks into, and gives up when its time is over', async () => {
    for (const name of ['a.log', 'b.log']) {
      writeFileSync(at(name), 'x'.repeat(10_000))
      truncateSync(at(name), 1024 ** 3)
    }
    const query = (more: string) => stage.ask('GET', `/search?text=needle${more}`)
    expect((await query('')).data).toMatchObject({ hits: [], cut: null, unread: 2 })
    const began = performance.now()
    expect((await query('&maxFileMb=1024&maxSeconds=1')).data).toMatchObject({ hits: [], cut: 'time' })
    expect(performance.now() - began).toBeLessThan(5000)
  })

  test('reads no more than 4 GiB', { tags: ['long'], timeout: 120_000 }, async () => {
    for (let number = 0; number < 6; number++) {
      writeFileSync(at(`${number}.log`), 'x'.repeat(10_000))
      truncateSync(at(`${number}.log`), 1024 ** 3)
    }
    const { data } = await stage.ask('GET', '/search?text=needle&maxFileMb=1024&maxSeconds=60')
    expect(['bytes', 'time']).toContain(data.cut)
    expect(data.bytes).toBeLessThan(4.1 * 1024 ** 3)
  })
})
