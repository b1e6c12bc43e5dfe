import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inRange, isRange } from '../../../src/daemon/features/plugins/engine-range.ts'
import { readDefinition } from '../../../src/daemon/features/plugins/manifest.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'panel-manifest-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const PLAIN = { name: 'plain', version: '1.2.3', engine: '>=0.1.0 <1.0.0' }
const route = { method: 'GET', path: '/x', permission: 'session', handler: 'x' }

async function read(manifest: unknown) {
  await writeFile(join(folder, 'plugin.json'), typeof manifest === 'string' ? manifest : JSON.stringify(manifest))
  return readDefinition(folder, 'plain', '0.4.0')
}

describe('a manifest', () => {
  it('needs a name, a version and a range of versions of the panel', async () => {
    expect(await read(PLAIN)).toMatchObject({
      ...PLAIN,
      displayName: 'plain',
      main: 'index.js',
      memoryMb: 128,
      routes: [],
    })
  })

  it.each([
    ['{', 'is not JSON'],
    [{ ...PLAIN, name: 'other' }, 'names the plugin other, but its folder is plain'],
    [{ ...PLAIN, name: 'Not A Name' }, 'name: '],
    [{ ...PLAIN, version: 'new' }, 'version: must be a version'],
    [{ ...PLAIN, engine: '>=1.0.0' }, 'it is made for panel >=1.0.0; this is 0.4.0'],
    [{ ...PLAIN, engine: 'latest' }, 'engine: must be a range'],
    [{ ...PLAIN, main: '../../etc/passwd.js' }, 'main: must be a'],
    [{ ...PLAIN, main: '/etc/x.js' }, 'main: must be a'],
    [{ ...PLAIN, permissions: ['*'] }, 'permissions.0'],
    [{ ...PLAIN, permissions: ['server.fly'] }, 'permissions.0'],
    [{ ...PLAIN, memoryMb: 100_000 }, 'memoryMb'],
    [{ ...PLAIN, surprise: 1 }, 'surprise'],
    [{ ...PLAIN, routes: [{ ...route, path: '/config' }] }, 'must not begin with enable, reload, config'],
    [{ ...PLAIN, routes: [{ ...route, path: '/../x' }] }, 'routes.0.path'],
    [{ ...PLAIN, routes: [{ ...route, permission: 'public' }] }, 'routes.0.permission'],
    [
      {
        ...PLAIN,
        routes: [
          { ...route, path: '/a/:b' },
          { ...route, path: '/a/:c' },
        ],
      },
      'routes: must not have the same method and path twice',
    ],
    [{ ...PLAIN, events: [{ type: 'sunrise', handler: 'x' }] }, 'events.0.type: must be an event type'],
    [{ ...PLAIN, tasks: [{ name: 'a', cron: 'soon', handler: 'x' }] }, 'tasks.0.cron: must be a cron pattern'],
    [{ ...PLAIN, tasks: [{ name: 'a', cron: '0 0 30 2 *', handler: 'x' }] }, 'tasks.0.cron: must be a cron pattern'],
    [{ ...PLAIN, configSchema: { type: 'string' } }, 'configSchema: must be a schema of type object'],
    [{ ...PLAIN, configSchema: { type: 'object', flavour: 1 } }, 'configSchema: '],
    [
      { ...PLAIN, configSchema: { type: 'object', properties: { a: { writeOnly: true } } } },
      'a writeOnly field must be of type string',
    ],
    [
      {
        ...PLAIN,
        configSchema: { type: 'object', properties: { a: { type: 'object', properties: { b: { writeOnly: true } } } } },
      },
      'only fields of the first level can be writeOnly',
    ],
    [{ ...PLAIN, configSchema: { type: 'object', properties: { a: { pattern: '(' } } } }, 'configSchema: '],
    [{ ...PLAIN, configSchema: { $ref: 'https://example.org/schema.json', type: 'object' } }, 'configSchema: '],
    [`"${'x'.repeat(70_000)}"`, 'is larger than 65536 bytes'],
  ])('that is %j is refused: %s', async (manifest, reason) => {
    await expect(read(manifest)).rejects.toMatchObject({
      name: 'LoadProblem',
      message: expect.stringContaining(reason),
    })
  })

  it('has patterns that take linear time', async () => {
    const properties = { text: { type: 'string', pattern: '^(a+)+$' } }
    const { schema } = await read({ ...PLAIN, configSchema: { type: 'object', properties } })
    expect(schema.check({ text: `${'a'.repeat(5000)}b` }).problems).toMatchObject([{ field: 'config.text' }])
    expect(schema.check({ text: 'aaa' }).problems).toEqual([])
  })
})

describe('a range of versions', () => {
  it.each([
    ['*', '0.1.0', true],
    ['0.1.0', '0.1.0', true],
    ['0.1.0', '0.1.1', false],
    ['>=0.1.0 <0.3.0', '0.2.9', true],
    ['>=0.1.0 <0.3.0', '0.3.0', false],
    ['^0.2.0', '0.2.7', true],
    ['^0.2.0', '0.3.0', false],
    ['^1.2.0', '1.9.0', true],
    ['^1.2.0', '2.0.0', false],
    ['~1.2.3', '1.2.9', true],
    ['~1.2.3', '1.3.0', false],
    ['>0.1.0', '0.1.0', false],
    ['<=0.1.0', '0.1.0-rc.1', true],
  ])('%s has %s: %s', (range, version, expected) => {
    expect([isRange(range), inRange(version, range)]).toEqual([true, expected])
  })

  it.each(['', 'latest', '1', '>=1.x', '>= 1.0.0'])('is not %j', (text) => expect(isRange(text)).toBe(false))
})
