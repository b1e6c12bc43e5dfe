import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { getJob } from '../../../src/shared/api/jobs.ts'
import { eventually } from '../gateway-stage.ts'
import { enterFileStage, type FileStage } from './file-stage.ts'

let stage: FileStage
const at = (...names: string[]): string => join(stage.folder, ...names)
beforeAll(async () => {
  stage = await enterFileStage({ diskMb: 32 })
})
afterAll(() => stage.close())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(at('world', 'region'), { recursive: true })
  writeFileSync(at('world', 'level.dat'), 'level')
  writeFileSync(at('world', 'region', `${'long-'.repeat(30)}.mca`), Buffer.alloc(100_000, 7))
  writeFileSync(at('world', 'empty'), '')
  chmodSync(at('world', 'level.dat'), 0o640)
  symlinkSync('level.dat', at('world', 'link'))
})

const tree = (folder: string): string[] =>
  readdirSync(at(folder), { recursive: true, encoding: 'utf8' })
    .sort()
    .map((name) => {
      const facts = lstatSync(at(folder, name))
      const mode = (facts.mode & 0o777).toString(8)
      if (facts.isSymbolicLink()) return `${name} -> ${readlinkSync(at(folder, name))}`
      if (facts.isDirectory()) return `${name}/`
      return `${name} ${mode} ${createHash('sha256')
        .update(readFileSync(at(folder, name)))
        .digest('hex')}`
    })

describe('an archive', () => {
  test.each(['.tar', '.tar.gz', '.tgz', '.tar.xz', '.tar.zst', '.zip'])(
    '%s is packed, listed and unpacked',
    async (end) => {
      const packed = await stage.ask('POST', '/compress', { paths: ['world'], archiveName: `a${end}` })
      expect(packed, JSON.stringify(packed)).toMatchObject({
        status: 200,
        data: { archivePath: `/a${end}`, entries: 6, problems: [], size: lstatSync(at(`a${end}`)).size },
      })
      const { data } = await stage.ask('POST', '/archive-contents', { archivePath: `a${end}` })
      expect(data.map(({ name }: { name: string }) => name.replace(/\/$/, ''))).toContain('world/level.dat')
      expect(data).toHaveLength(6)
      const body = { archivePath: `a${end}`, targetPath: 'copy' }
      expect(await stage.ask('POST', '/decompress', body)).toMatchObject({
        status: 200,
        data: { entries: 6, problems: [] },
      })
      expect(tree('copy/world')).toEqual(tree('world'))
      expect(readdirSync(stage.folder).sort()).toEqual([`a${end}`, 'copy', 'world'])
    },
  )

  test('counts what is in it, without what a zip cannot hold', async () => {
    writeFileSync(at('world', 'back\\slash'), 'a')
    symlinkSync('level.dat', at('world', 'link\\slash'))
    const packed = await stage.ask('POST', '/compress', { paths: ['world'], archiveName: 'a.zip' })
    expect(packed.data).toMatchObject({ entries: 6, problemCount: 2 })
    const { data } = await stage.ask('POST', '/archive-contents', { archivePath: 'a.zip' })
    expect(data).toHaveLength(6)
  })

  test('of other programs is unpacked, and theirs unpack those of the panel', async () => {
    execFileSync('tar', ['-czf', 'other.tgz', 'world'], { cwd: stage.folder })
    execFileSync('zip', ['-qry', 'other.zip', 'world'], { cwd: stage.folder })
    for (const archivePath of ['other.tgz', 'other.zip']) {
      const body = { archivePath, targetPath: `of-${archivePath}` }
      expect((await stage.ask('POST', '/decompress', body)).data.problems).toEqual([])
      expect(tree(`of-${archivePath}/world`)).toEqual(tree('world'))
    }
    await stage.ask('POST', '/compress', { paths: ['world'], archiveName: 'own.tar' })
    mkdirSync(at('theirs'))
    execFileSync('tar', ['-xf', '../own.tar'], { cwd: at('theirs') })
    expect(tree('theirs/world')).toEqual(tree('world'))
  })

  test('replaces files or leaves them, and is not made over another', async () => {
    await stage.ask('POST', '/compress', { paths: ['world/level.dat'], archiveName: '/a.tar' })
    expect((await stage.ask('POST', '/compress', { paths: ['world'], archiveName: '/world/a.tar' })).status).toBe(200)
    expect((await stage.ask('POST', '/compress', { paths: ['world'], archiveName: '/world/a.tar' })).status).toBe(409)
    expect((await stage.ask('POST', '/compress', { paths: ['world'], archiveName: 'a.rar' })).code).toBe(
      'FILE_ARCHIVE_UNSUPPORTED',
    )
    writeFileSync(at('world', 'level.dat'), 'newer')
    const body = { archivePath: '/world/a.tar', targetPath: '/', replace: false }
    expect((await stage.ask('POST', '/decompress', body)).data.problemCount).toBeGreaterThan(0)
    expect(readFileSync(at('world', 'level.dat'), 'utf8')).toBe('newer')
    await stage.ask('POST', '/decompress', { ...body, replace: true })
    expect(readFileSync(at('world', 'level.dat'), 'utf8')).toBe('level')
  })

  test('that does not fit leaves nothing', async () => {
    execFileSync('sh', ['-c', 'truncate -s 40M x && tar -cf big.tar x && rm x'], { cwd: stage.folder })
    const before = readdirSync(stage.folder)
    expect((await stage.ask('POST', '/decompress', { archivePath: 'big.tar' })).code).toBe('INSUFFICIENT_SPACE')
    expect(readdirSync(stage.folder)).toEqual(before)
  })

  test('has what a game makes of modes, times and names, or says what it has not', async () => {
    chmodSync(at('world', 'level.dat'), 0)
    utimesSync(at('world', 'level.dat'), new Date('1960-01-01'), new Date('1960-01-01'))
    utimesSync(at('world', 'empty'), new Date('2300-01-01'), new Date('2300-01-01'))
    const before = tree('world')
    mkdirSync(at('world', 'no\\folder'))
    symlinkSync('level.dat', at('world', 'no\\link'))
    writeFileSync(at('world', 'no\\file'), '')
    const { data } = await stage.ask('POST', '/compress', { paths: ['world'], archiveName: 'a.zip' })
    expect(data.problems.map(({ path }: { path: string }) => path).sort()).toEqual([
      '/world/no\\file',
      '/world/no\\folder',
      '/world/no\\link',
    ])
    for (const name of ['no\\folder', 'no\\link', 'no\\file']) rmSync(at('world', name), { recursive: true })
    await stage.ask('POST', '/compress', { paths: ['world'], archiveName: 'a.tar' })
    for (const archivePath of ['a.zip', 'a.tar']) {
      const body = { archivePath, targetPath: `of-${archivePath}` }
      expect((await stage.ask('POST', '/decompress', body)).data.problems).toEqual([])
      expect(tree(`of-${archivePath}/world`)).toEqual(before)
    }
  })

  test('of little that becomes very much takes nobody’s time: not unread, and not of who has gone', async () => {
    /** A device, which is left out, with so many times 256 MiB behind it. */
    const make = (name: string, times: number): void => {
      execFileSync('sh', ['-c', `head -c 268435456 /dev/zero | zstd -q > '${at('zeros')}'`])
      const head = Buffer.alloc(512)
      head.write('device')
      head[124] = 0x80 // a number of bytes, as sizes beyond 8 GiB have it
      head.writeBigUInt64BE(BigInt(times) * 2n ** 28n, 128)
      head.write('3', 156)
      head.fill(' ', 148, 156)
      head.write(
        `${head
          .reduce((sum, byte) => sum + byte, 0)
          .toString(8)
          .padStart(6, '0')}\0`,
        148,
      )
      const zeros = readFileSync(at('zeros'))
      const first = execFileSync('zstd', ['-q', '-c'], { input: head })
      writeFileSync(at(name), Buffer.concat([first, ...Array.from({ length: times }, () => zeros)]))
      rmSync(at('zeros'))
    }
    make('bomb.tar.zst', 20)
    const unpacked = await stage.ask('POST', '/decompress', { archivePath: 'bomb.tar.zst', targetPath: 'out' })
    expect(unpacked.code).toBe('INSUFFICIENT_SPACE')
    make('endless.tar.zst', 400)
    writeFileSync(at('small.tar'), Buffer.alloc(1024))
    for (let count = 0; count < 4; count++) {
      const asking = stage.ask('POST', '/archive-contents', { archivePath: 'endless.tar.zst' }, {}, 500)
      await expect(asking).rejects.toThrow()
    }
    await eventually(
      () => stage.ask('POST', '/archive-contents', { archivePath: 'small.tar' }),
      ({ status }) => status === 200,
    )
  })
})

test('what comes at the same time has the room of the server together, and what fits comes', async () => {
  const megabytes = 10 * 1024 * 1024
  /** Whether it was taken; who still sends may be cut off before the refusal comes. */
  const put = async (name: string, body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>): Promise<boolean> => {
    const { panel, serverId } = stage
    const asking = fetch(`${panel.url}/api/servers/${serverId}/files/content?path=/${name}`, {
      method: 'PUT',
      headers: {
        authorization: `Bearer ${panel.adminToken}`,
        'content-type': 'application/octet-stream',
        connection: 'close', // what is refused while it is sent ends its connection, which nobody else must get
      },
      body,
      duplex: 'half', // for bodies without a length
    } as RequestInit)
    const response = await asking.catch(() => undefined)
    await response?.text()
    return response?.ok === true
  }
  /** Ten times a megabyte, of which nobody knows when it ends. */
  const endless = (): ReadableStream<Uint8Array> => {
    let left = 10
    return new ReadableStream({
      pull: (controller) => {
        if (left-- > 0) controller.enqueue(new Uint8Array(megabytes / 10))
        else controller.close()
      },
    })
  }
  const usedMb = () => Number(execFileSync('du', ['-sm', stage.folder]).toString().split('\t')[0])
  const sized = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => put(`sized${n}`, new Uint8Array(megabytes))))
  expect(sized.filter((isTaken) => isTaken)).toHaveLength(3)
  for (const name of readdirSync(stage.folder)) rmSync(at(name), { recursive: true })
  expect(await put('one', endless())).toBe(true)
  const unsized = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => put(`unsized${n}`, endless())))
  expect(unsized.filter((isTaken) => isTaken).length).toBeLessThanOrEqual(2)
  expect(usedMb()).toBeLessThanOrEqual(32)
  for (const name of readdirSync(stage.folder)) if (name !== 'one') rmSync(at(name))
  writeFileSync(at('one'), Buffer.alloc(megabytes, 1))
  const copies = await Promise.all([1, 2, 3].map((n) => stage.ask('POST', '/copy', { from: 'one', to: `copy${n}` })))
  expect(copies.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(2)
  expect(usedMb()).toBeLessThanOrEqual(32)
})

describe('work on files as a job', () => {
  async function done(work: object) {
    const { status, data } = await stage.ask('POST', '/jobs', { work })
    expect(status).toBe(202)
    const read = () => stage.panel.client.call(getJob, { params: { jobId: data.jobId } })
    return await eventually(read, ({ endedAt }) => endedAt !== null)
  }

  test('goes on without its caller, and leaves its audit row', async () => {
    expect((await done({ kind: 'compress', paths: ['world'], archiveName: 'w.tar.gz' })).status).toBe('succeeded')
    expect((await done({ kind: 'decompress', archivePath: 'w.tar.gz', targetPath: 'back' })).status).toBe('succeeded')
    expect((await done({ kind: 'copy', from: 'world', to: 'copied' })).status).toBe('succeeded')
    expect(tree('back/world')).toEqual(tree('world'))
    expect(tree('copied')).toEqual(tree('world'))
    expect((await done({ kind: 'delete', paths: ['world'] })).status).toBe('succeeded')
    expect(existsSync(at('world'))).toBe(false)
    const rows = await stage.panel.client.call(listAuditLogs, { query: { action: 'server.file_delete' } })
    expect(rows[0]?.details).toMatchObject({ paths: ['world'], pathCount: 1 })
  })

  test('that cannot be done says why', async () => {
    const job = await done({ kind: 'copy', from: 'nothing', to: 'copied' })
    expect(job).toMatchObject({ status: 'failed', errorCode: 'FILE_NOT_FOUND' })
  })

  test('copies a tree to another server, from node to node', async () => {
    const other = await stage.another('other')
    const work = { kind: 'copy_to_server', from: 'world', toServerId: other.serverId, to: '/in' }
    expect(await done(work)).toMatchObject({ status: 'succeeded', error: null })
    const names = (folder: string): string[] => readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort()
    expect(names(join(other.folder, 'in', 'world'))).toEqual(names(at('world')))
    rmSync(join(other.folder, 'in'), { recursive: true })
  })
})
