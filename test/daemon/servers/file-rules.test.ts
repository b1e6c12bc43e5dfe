import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { createApiKey } from '../../../src/shared/api/api-keys.ts'
import { enterFileStage, type FileStage } from './file-stage.ts'

let stage: FileStage
/** A member: by a key that may do all with files, and nothing of an administrator. */
let member: { authorization: string }
const at = (...names: string[]): string => join(stage.folder, ...names)
const asMember = (method: string, path: string, body?: unknown) => stage.ask(method, path, body, member)

beforeAll(async () => {
  stage = await enterFileStage()
  const permissions = ['server.read', 'file.read', 'file.write'] as never
  const body = { name: 'files', permissions, rateLimitMax: 10_000, rateLimitTimeWindow: 1000 }
  member = { authorization: `Bearer ${(await stage.panel.client.call(createApiKey, { body })).key}` }
})
afterAll(() => stage.close())
beforeEach(() => {
  execFileSync('find', [stage.folder, '-mindepth', '1', '-delete'])
  mkdirSync(at('vault'))
  mkdirSync(at('conf', 'deep'), { recursive: true })
  mkdirSync(at('maps'))
  writeFileSync(at('vault', 'key'), 'kept')
  writeFileSync(at('conf', 'deep', 'a.SECRET'), 'kept too')
  writeFileSync(at('conf', 'open'), 'open')
})

describe('what the template keeps from members', () => {
  test.each([
    ['reading', 'GET', '/content?path=vault/key', undefined],
    ['downloading', 'GET', '/download?path=conf/deep/a.secret', undefined],
    ['writing', 'POST', '/write', { path: 'vault/key', content: 'x' }],
    ['creating', 'POST', '/create', { path: 'x.secret', isDirectory: false }],
    ['renaming', 'POST', '/rename', { from: 'conf/deep/a.SECRET', to: 'open' }],
    ['renaming to it', 'POST', '/rename', { from: 'conf/open', to: 'new.secret' }],
    ['moving its folder', 'POST', '/rename', { from: 'vault', to: 'mine' }],
    ['moving a folder that holds it', 'POST', '/rename', { from: 'conf', to: 'mine' }],
    ['copying', 'POST', '/copy', { from: 'vault', to: 'mine' }],
    ['deleting', 'DELETE', '/delete?path=vault', undefined],
    ['deleting a folder that holds it', 'DELETE', '/delete?path=conf', undefined],
    ['changing modes of what holds it', 'POST', '/permissions', { path: 'conf', mode: '777', recursive: true }],
    ['packing', 'POST', '/compress', { paths: ['vault'], archiveName: 'a.tar' }],
    ['a job', 'POST', '/jobs', { work: { kind: 'copy', from: 'vault', to: 'mine' } }],
  ])('is kept from %s', async (_, method, path, body) => {
    const response = await asMember(method, path, body)
    expect(response).toMatchObject({ status: 403, code: 'PERMISSION_DENIED' })
    expect(readdirSync(stage.folder).sort()).toEqual(['conf', 'maps', 'vault'])
    expect(readFileSync(at('vault', 'key'), 'utf8')).toBe('kept')
  })

  test('is left out of what is made of trees, and named', async () => {
    const copied = await asMember('POST', '/copy', { from: 'conf', to: 'copy' })
    expect(copied.data.problems).toMatchObject([{ path: 'deep/a.SECRET' }])
    expect(existsSync(at('copy', 'deep', 'a.SECRET'))).toBe(false)
    const packed = await asMember('POST', '/compress', { paths: ['conf'], archiveName: 'a.tar' })
    expect(packed.data.problemCount).toBe(1)
    const { data } = await asMember('POST', '/archive-contents', { archivePath: 'a.tar' })
    expect(JSON.stringify(data)).not.toMatch(/secret/i)
    const sums = await asMember('POST', '/checksums', { paths: ['conf'] })
    expect(sums.data.files.map(({ path }: { path: string }) => path)).toEqual(['/conf/open'])
    expect((await asMember('GET', '/search?text=kept')).data).toMatchObject({ hits: [], unread: 3 })
  })

  test('does not come out of an archive either, and administrators have all of it', async () => {
    await stage.ask('POST', '/compress', { paths: ['vault', 'conf'], archiveName: '/a.tar' })
    const { data } = await asMember('POST', '/decompress', { archivePath: 'a.tar', targetPath: '/' })
    expect(data.problemCount).toBe(3)
    expect((await stage.ask('GET', '/search?text=kept')).data.hits).toHaveLength(2)
    expect((await stage.ask('DELETE', '/delete?path=vault')).status).toBe(200)
  })
})

describe('the place of a mount', () => {
  test.each([
    ['listing', 'GET', '?path=maps', undefined],
    ['reading', 'GET', '/content?path=maps/a', undefined],
    ['writing', 'POST', '/write', { path: './maps//a', content: 'x' }],
    ['deleting', 'DELETE', '/delete?path=maps', undefined],
    ['renaming', 'POST', '/rename', { from: 'maps', to: 'mine' }],
    ['copying into it', 'POST', '/copy', { from: 'conf', to: 'maps/conf' }],
    ['unpacking into it', 'POST', '/decompress', { archivePath: 'a.tar', targetPath: '/maps' }],
    ['pulling into it', 'POST', '/pull', { url: 'http://127.0.0.2/x', path: 'maps' }],
  ])('is not reached by %s', async (_, method, path, body) => {
    const { status, code, details } = await stage.ask(method, path, body)
    expect({ status, code }).toEqual({ status: 400, code: 'FILE_PATH_INVALID' })
    expect(details?.[0]?.message).toContain('a folder of the node is mounted')
    expect(readdirSync(at('maps'))).toEqual([])
  })
})
