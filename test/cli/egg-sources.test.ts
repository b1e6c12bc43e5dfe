// @module-tag long
import { execFileSync } from 'node:child_process'
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { create, Header } from 'tar'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createTemplate, deleteTemplate, listTemplates, updateTemplate } from '../../src/shared/api/templates.ts'
import { OWN_EGGS } from '../eggs/egg-files.ts'
import { ROOT } from '../module-graph.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { skippedUnless } from '../skips.ts'
import { EGG_SOURCES } from './egg-source-paths.ts'
import { runHere } from './run-here.ts'
import { zipOf } from './zip-file.ts'

const GIT = (() => {
  try {
    return execFileSync('git', ['--version']).length > 0
  } catch {
    return false // the program is not there
  }
})()

let panel: TestPanel
let dir: string
const done = new Set<string>()

beforeAll(async () => {
  panel = await startPanel()
  dir = await mkdtemp(join(tmpdir(), 'panel-sources-'))
  await cp(join(ROOT, 'test/fixtures/eggs'), join(dir, 'eggs'), { recursive: true })
  await writeFile(join(dir, 'eggs', 'package.json'), '{"name":"no egg"}')
  await writeFile(join(dir, 'eggs', 'README.md'), '# Eggs')
})
afterAll(async () => {
  await panel.close()
  await rm(dir, { recursive: true, force: true })
})
beforeEach(async () => {
  for (const { id, origin } of await templates()) {
    if (origin != null) await panel.client.call(deleteTemplate, { params: { templateId: id } })
  }
})

const templates = () => panel.client.call(listTemplates, { query: { limit: 100 } })
const made = async () => (await templates()).filter(({ origin }) => origin != null)

async function run(exit: number, ...args: string[]) {
  const env = { HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.adminToken, PATH: process.env['PATH'] ?? '' }
  const ran = await runHere(['templates', 'sources', ...args], { env })
  expect(ran.code, `${args.join(' ')}: ${ran.stderr}`).toBe(exit)
  done.add(`templates sources ${args[0]}`)
  return ran
}
const json = async (...args: string[]) => JSON.parse((await run(0, ...args, '-o', 'json')).stdout)

/** A folder of its own with these files. */
async function folder(files: Readonly<Record<string, string>>): Promise<string> {
  const path = await mkdtemp(join(dir, 'folder-'))
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(path, name, '..'), { recursive: true })
    await writeFile(join(path, name), content)
  }
  return path
}

const egg = (name: string, more: Record<string, unknown> = {}): string =>
  JSON.stringify({
    meta: { version: 'PTDL_v2', update_url: null },
    name,
    docker_images: { a: 'example/a' },
    startup: './run {{WORD}}',
    config: { files: '{}', startup: '{"done":"up"}', logs: '{}', stop: 'stop' },
    scripts: { installation: { script: 'true', container: 'example/a', entrypoint: 'bash' } },
    variables: [{ name: 'Word', env_variable: 'WORD', default_value: 'a', rules: 'string', user_editable: true }],
    ...more,
  })

const UUID = '5f0c1f8e-0a5a-4b5e-9d53-6d9a8e0f1a11'

describe('a folder of eggs', () => {
  it('is listed by content, imported after a question alone, and is known again', async () => {
    const from = await folder({
      'a/egg-one.json': egg('One', { uuid: UUID }),
      'b/two.yaml': egg('Two'),
      'package.json': '{}',
    })
    expect(await json('list', from)).toMatchObject([
      { path: 'a/egg-one.json', status: 'new', name: 'One', uuid: UUID },
      { path: 'b/two.yaml', status: 'new', name: 'Two', template: null },
    ])
    expect((await run(2, 'import', from)).stderr).toContain('--yes')
    expect((await run(0, 'import', from, '--dry-run')).stderr).toContain('nothing was changed')
    expect(await made()).toEqual([])
    expect(await json('import', from, 'two', '--yes')).toMatchObject([{ status: 'imported', template: 'Two' }])
    expect(await json('import', from, '--yes')).toMatchObject([{ status: 'imported', template: 'One' }])
    expect(await json('list', from)).toMatchObject([{ status: 'same' }, { status: 'same', template: 'Two' }])
    expect(await json('import', from, '--yes')).toEqual([])
  })

  it('brings templates up to date: found by their eggs, with their names, runtimes and secrets', async () => {
    const from = await folder({ 'one.json': egg('One', { uuid: UUID }), 'two.json': egg('Two') })
    const [one] = await json('import', from, 'One', '--yes')
    const [variable] = (await made())[0]?.variables ?? []
    if (variable === undefined) throw new Error('no variable')
    await panel.client.call(updateTemplate, {
      params: { templateId: one.templateId },
      body: { name: 'Mine', runtimes: ['process', 'docker'], variables: [{ ...variable, secret: true }] },
    })
    await writeFile(join(from, 'one.json'), egg('One', { uuid: UUID, startup: './run --new {{WORD}}' }))
    expect(await json('diff', from)).toEqual([
      {
        egg: 'one.json',
        template: 'Mine',
        field: 'startup',
        from: './run {{WORD | split}}',
        to: './run --new {{WORD | split}}',
      },
    ])
    expect(await json('import', from, '--only', 'changed', '--dry-run')).toMatchObject([
      { status: 'changed', template: 'Mine', changes: ['startup'] },
    ])
    expect(await json('import', from, '--only', 'changed', '--yes')).toMatchObject([{ status: 'updated' }])
    expect(await made()).toMatchObject([
      {
        name: 'Mine',
        startup: './run --new {{WORD | split}}',
        runtimes: ['process', 'docker'],
        variables: [{ secret: true }],
      },
    ])
  })

  it('says what cannot be imported, and why', async () => {
    const broken = egg('Broken', { startup: 'cat <<EOF\n{{WORD}}' })
    const body = { name: 'By hand', startup: './run' }
    const { id: templateId } = await panel.client.call(createTemplate, { body })
    const from = await folder({
      'a.json': egg('Good'),
      'b.json': broken,
      'c.json': egg('Good'),
      'd.json': egg('By hand'),
      'e.json': egg('Cut').slice(0, -20),
      'notes.json': '{"no": "egg',
    })
    await writeFile(join(from, 'f.json'), Buffer.from(egg('Wüst'), 'latin1'))
    await symlink(join(from, 'a.json'), join(from, 'link.json'))
    const rows = await json('list', from)
    expect(rows.map(({ path, status }: { path: string; status: string }) => [path, status])).toEqual([
      ['a.json', 'new'],
      ['b.json', 'refused'],
      ['c.json', 'refused'],
      ['d.json', 'refused'],
      ['e.json', 'refused'],
      ['f.json', 'refused'],
    ])
    expect(rows.at(-1)?.why).toBe('is no text in UTF-8')
    expect((await run(8, 'import', from, 'b.json', '--yes')).stderr).toContain('here-document')
    const ran = await run(3, 'import', from, '--yes')
    expect(ran.stderr).toContain('is for the same template as a.json')
    expect(ran.stderr).toContain('made of no egg')
    expect((await made()).map(({ name }) => name)).toEqual(['Good'])
    await panel.client.call(deleteTemplate, { params: { templateId } })
    expect((await run(6, 'list', from, 'nothing')).stderr).toContain('holds no egg nothing')
    await run(15, 'list', await folder({ 'a.json': '{}', 'b.yaml': 'a: [' }))
    await run(2, 'list', join(dir, 'none'))
  })
})

describe('an archive of eggs', () => {
  const file = async (name: string, content: Uint8Array): Promise<string> => {
    await writeFile(join(dir, name), content)
    return join(dir, name)
  }
  /** A tar archive with names as they are given. */
  const tarOf = (entries: readonly { path: string; content: string; type?: 'SymbolicLink'; linkpath?: string }[]) =>
    Buffer.concat([
      ...entries.flatMap(({ path, content, type, linkpath }) => {
        const header = new Header({
          path,
          mode: 0o644,
          size: content.length,
          type: type ?? 'File',
          linkpath: linkpath ?? '',
        })
        const block = Buffer.alloc(512)
        header.encode(block)
        return [block, Buffer.from(content), Buffer.alloc((512 - (content.length % 512)) % 512)]
      }),
      Buffer.alloc(1024),
    ])

  it('gives the same eggs as its folder does', async () => {
    const paths = OWN_EGGS.map(({ name }) => name)
    const names = async (from: string) => (await json('list', from)).map(({ path }: { path: string }) => path)
    await create({ cwd: dir, file: join(dir, 'e.tar.gz'), gzip: true }, ['eggs'])
    await create({ cwd: dir, file: join(dir, 'e.tar') }, ['eggs'])
    const zip = await file('e.zip', zipOf(OWN_EGGS.map(({ name, text }) => ({ name: `eggs/${name}`, content: text }))))
    expect(await names(join(dir, 'eggs'))).toEqual(paths)
    for (const from of [join(dir, 'e.tar.gz'), join(dir, 'e.tar'), zip]) {
      expect((await names(from)).sort()).toEqual(paths.map((path) => `eggs/${path}`))
      expect((await json('list', from, '--folder', 'eggs')).length).toBe(paths.length)
    }
  })

  it('that leads out of its folder, lies or is a bomb is refused, and links are passed over', async () => {
    const good = { path: 'good.json', content: egg('Good') }
    const link = { path: 'link.json', content: '', type: 'SymbolicLink' as const, linkpath: '/etc/passwd' }
    expect(await json('list', await file('links.tar', tarOf([good, link])))).toMatchObject([{ path: 'good.json' }])
    for (const path of ['../up.json', '/abs.json', 'a/../../up.json', 'C:up.json', 'a\\..\\b.json']) {
      const bad = { path, content: egg('Bad') }
      expect((await run(11, 'list', await file('bad.tar', tarOf([good, bad])))).stderr).toContain('leads out')
      expect((await run(11, 'list', await file('bad.zip', zipOf([{ name: path, content: '{}' }])))).stderr).toMatch(
        /leads out|invalid relative path|absolute path|invalid characters/,
      )
    }
    const long = zipOf([{ name: 'a.json', content: 'x'.repeat(100_000), claims: 10 }])
    expect((await run(11, 'list', await file('lies.zip', long))).stderr).toContain('cannot be followed')
    const many = Array.from({ length: 70 }, (_, at) => ({ path: `${at}.json`, content: ' '.repeat(1024 * 1024) }))
    expect((await run(11, 'list', await file('bomb.tar.gz', gzipSync(tarOf(many))))).stderr).toContain('64 MiB')
    const twice = gzipSync(gzipSync(tarOf([good])))
    expect((await run(11, 'list', await file('twice.tar.gz', twice))).stderr).toContain('packed twice')
    await run(11, 'list', await file('cut.tar.gz', gzipSync(tarOf([good])).subarray(0, 100)))
    await run(11, 'list', await file('none.zip', Buffer.from('no archive')))
  })
})

describe.skipIf(!GIT)(`a repository of eggs${skippedUnless(GIT, 'git')}`, () => {
  const git = (at: string, ...args: string[]): void => {
    const who = ['-c', 'user.name=a', '-c', 'user.email=a@example.org', '-c', 'init.defaultBranch=main']
    execFileSync('git', [...who, ...args], { cwd: at, stdio: 'pipe' })
  }

  it('is read at the commit that is asked for, and leaves nothing behind', async () => {
    const repo = await folder({ 'games/one.json': egg('One', { uuid: UUID }), 'other/two.json': egg('Two') })
    await symlink('/etc/hostname', join(repo, 'games', 'link.json'))
    git(repo, 'init')
    git(repo, 'add', '.')
    git(repo, 'commit', '-m', 'first')
    git(repo, 'tag', 'v1')
    await writeFile(join(repo, 'games/one.json'), egg('One', { uuid: UUID, startup: './newer' }))
    git(repo, 'commit', '-am', 'second')
    expect(await json('import', repo, '--ref', 'v1', '--folder', 'games', '--yes')).toMatchObject([{ template: 'One' }])
    expect(await json('diff', repo, '--ref', 'main')).toMatchObject([{ field: 'startup', to: './newer' }])
    expect(await json('list', repo, '--ref', 'main')).toMatchObject([{ status: 'changed' }, { status: 'new' }])
    expect((await run(11, 'list', repo, '--ref', 'v2')).stderr).toContain('v2')
  })

  it.each([
    [2, ['ext::sh -c touch% fell']],
    [2, ['http://127.0.0.1:1/eggs.git']],
    [2, ['git://127.0.0.1:1/eggs.git']],
    [2, ['file:///etc']],
    [2, ['https://user:secret@127.0.0.1:1/eggs.git']],
    [2, ['.', '--ref', '--upload-pack=touch']],
    [11, ['https://127.0.0.1:1/eggs.git']],
    [11, ['nobody@127.0.0.1:-oProxyCommand=touch']],
  ] as const)('of this kind is not read (exit %i): %j', async (exit, args) => {
    const { stderr } = await run(exit, 'list', ...args)
    expect(stderr).not.toContain('secret')
  })
})

it('is all that there is of these commands', async () => {
  expect(EGG_SOURCES.filter((path) => !done.has(path))).toEqual([])
  expect(await readFile(join(dir, 'eggs', 'README.md'), 'utf8')).toBe('# Eggs')
})
