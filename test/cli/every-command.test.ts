import { copyFile, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { getServerStats } from '../../src/shared/api/servers.ts'
import { startMailServer } from '../daemon/mail/mail-server.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { ROOT } from '../module-graph.ts'
import { quietPort } from '../ports.ts'
import { ALERTS } from './alerts-paths.ts'
import { BACKUP_COMMANDS } from './backup-command-paths.ts'
import { BACKUP_POLICIES } from './backup-policy-paths.ts'
import { BACKUP_STORES } from './backup-store-paths.ts'
import { commandWalk, runBriefly } from './command-walk.ts'
import { DATABASE_COMMANDS } from './database-command-paths.ts'
import { EGG_SOURCES } from './egg-source-paths.ts'
import { JOBS } from './job-paths.ts'
import { LIFE } from './life-paths.ts'
import { MIGRATION_COMMANDS } from './migration-paths.ts'
import { OVERVIEW } from './overview-paths.ts'
import { PLUGIN_COMMANDS } from './plugins-paths.ts'
import { POOLS } from './pool-paths.ts'
import { PORTS } from './port-paths.ts'
import { SCHEDULES } from './schedule-paths.ts'
import { SELF_SERVICE } from './self-service-paths.ts'
import { SFTP } from './sftp-paths.ts'
import { SIGN_IN } from './sign-in-paths.ts'

/** Answers `hi` to what is typed and ends at `quit`. */
const GAME = `
echo ready
while read -r line; do
  [ "$line" = quit ] && exit 0
  echo "hi $line"
done
`

const PASSWORD = 'Correct horse 9 battery!'
let panel: SplitPanel
let paths: string[]

type Options = Parameters<SplitPanel['run']>[1]

const walk = commandWalk<NonNullable<Options>>(
  () => paths,
  (args, options = {}) => runBriefly(args, { ...options, env: { ...panel.environment(), ...options.env } }),
)
const { run, ok, json } = walk
const refused = async (code: number, args: readonly string[], options?: Options): Promise<string> =>
  (await walk.refused(code, args, options)).stderr

/** Without a URL and a token in the environment: what the contexts say is in force. */
const BY_CONTEXT = { env: { PANEL_URL: '', PANEL_TOKEN: '' } }

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const known: { path: string }[] = JSON.parse((await panel.run(['commands', '--json'])).stdout)
  paths = known.map(({ path }) => path)
  // How the stage was made, and what runs in it.
  for (const path of ['daemon run', 'agent enroll', 'agent run']) walk.note(path)
})

afterAll(async () => {
  await panel.leave()
})

describe('every command against a real daemon and agent', () => {
  it('locations, nests, templates', async () => {
    for (const noun of ['locations', 'nests']) {
      const { id } = await json([noun, 'create', '--name', 'berlin'])
      await ok([noun, 'edit', 'berlin', '--description', 'rack 4'])
      expect(await json([noun, 'view', id])).toMatchObject({ name: 'berlin', description: 'rack 4' })
      expect(await ok([noun, 'list', '-o', 'name'])).toContain('berlin')
      await ok([noun, 'delete', 'berlin', '--yes'])
      await refused(6, [noun, 'view', id])
    }
    const file = join(panel.home, 'game.yaml')
    await writeFile(
      file,
      `name: talk\nruntimes: [process]\nstartup: exec sh ./game.sh\nstopCommand: quit\nallocatedMemoryMb: 64\n` +
        `allocatedCpuCores: 0.5\nstartupDetection: { done: [{ kind: contains, value: ready }] }\ninstallEntrypoint: sh\n` +
        `variables: [{ name: MOTD, default: hello }]\n` +
        `installScript: |\n  cat > "\${MNT_SERVER:-.}/game.sh" <<'END'\n${GAME.replace(/^/gm, '  ')}\n  END\n`,
    )
    const { id } = await json(['templates', 'create', '-F', file])
    await ok(['templates', 'edit', 'talk', '--description', 'it talks'])
    expect(await json(['templates', 'view', 'talk'])).toMatchObject({
      id,
      description: 'it talks',
      stopCommand: 'quit',
    })
    expect(await json(['templates', 'list', '--search', 'tal'])).toHaveLength(1)
    await ok(['templates', 'create', '-F', file, '--name', 'other'])
    await ok(['templates', 'delete', 'other', '--yes'])

    const installed = await run(['templates', 'install', 'bzflag'])
    expect([installed.code, installed.stderr]).toEqual([
      0,
      expect.stringContaining('--no-install-recommends bzflag-server'),
    ])
    await ok(['templates', 'edit', 'BZFlag', '--stop-command', '^C'])
    expect(await json(['templates', 'catalog'])).toContainEqual(
      expect.objectContaining({ name: 'bzflag', installed: expect.objectContaining({ edited: true }) }),
    )
    await refused(7, ['templates', 'install', 'bzflag'])
    expect(await json(['templates', 'install', 'bzflag', '--force'])).toMatchObject({ outcome: 'updated' })
    await refused(6, ['templates', 'install', 'nothing'])
  })

  it('eggs', async () => {
    const [egg, yaml] = ['ptdl-v2.json', 'plcn-v2.yaml'].map((name) => join(ROOT, 'test/fixtures/eggs', name))
    const made = await run(['templates', 'import', egg ?? '', '--name', 'quarry'])
    expect([made.code, made.stderr]).toEqual([0, expect.stringContaining('split: startup leaves these unquoted')])
    expect(await json(['templates', 'import', yaml ?? '', '--name', 'dug'])).toMatchObject({
      report: { format: 'PLCN_v2' },
    })
    expect(
      await json(['templates', 'create', '-F', yaml ?? '', '--name', 'pit', '--description', 'deep']),
    ).toMatchObject({
      name: 'pit',
      description: 'deep',
      // Without quotes in the file, and no number.
      variables: [{ name: 'VERSION', default: '1.10' }, { name: 'LEVEL' }, { name: 'SWITCH' }, { name: 'NOTHING' }],
    })
    await ok(['templates', 'edit', 'pit', '-F', egg ?? ''])
    expect(await json(['templates', 'view', 'pit'])).toMatchObject({ name: 'pit', origin: { format: 'PTDL_v2' } })
    const exported = join(panel.home, 'exported.yaml')
    await writeFile(exported, await ok(['templates', 'export', 'quarry', '--format', 'PLCN_v3', '-o', 'yaml']))
    expect(await json(['templates', 'lint', exported])).toContainEqual(
      expect.objectContaining({ kind: 'rule', field: 'variables.5.rules.2' }),
    )
    expect(await json(['templates', 'export', 'dug'])).toMatchObject({
      name: 'dug',
      egg: { meta: { version: 'PLCN_v2' } },
    })
    const different = await json(['templates', 'diff', egg ?? '', exported])
    expect(different.map(({ field }: { field: string }) => field)).toEqual(['name', 'version'])
    const tested = await json(['templates', 'test', yaml ?? '', '-e', 'LEVEL=7', '--port', '4000'])
    expect(tested).toContainEqual({
      part: 'startup',
      name: 'default',
      value: `set -f; ./quarry --version \${VERSION} --level \${LEVEL}`,
    })
    expect(tested).toContainEqual({ part: 'file', name: 'settings.toml server.port', value: '4000' })
    expect(tested).toContainEqual({ part: 'file', name: 'notes.txt port=', value: 'port=7' })
    await refused(8, ['templates', 'test', yaml ?? '', '-e', 'LEVEL=no'])
    await refused(2, ['templates', 'test', yaml ?? '', '--startup', 'other'])
    await writeFile(exported, '{"meta":{"version":"PTDL_v9"},"name":"x"}')
    expect((await run(['templates', 'lint', exported])).stderr).toContain('of a version that this panel does not read')
    await refused(8, ['templates', 'import', exported])
    await writeFile(exported, '{"name":"x","startup":"./x","query":{"protocol":"minecraft","port":"abc"}}')
    expect((await run(['templates', 'lint', exported])).stderr).toMatch(/^ *query\.port: names no variable/m)
    await writeFile(exported, '{"name":')
    await refused(2, ['templates', 'lint', exported])
    for (const name of ['quarry', 'dug', 'pit']) await ok(['templates', 'delete', name, '--yes'])
  })

  it('nodes and allocations', async () => {
    const more = ['--hostname', 'two', '--address', '127.0.0.1', '--memory', '1G', '--cpu', '1']
    const { id } = await json(['nodes', 'create', '--name', 'two', '--location', 'here', ...more])
    await ok(['nodes', 'edit', 'two', '--memory', '2G'])
    expect(await ok(['nodes', 'maintenance', 'two', 'on'])).toContain('maintenance')
    await ok(['nodes', 'maintenance', 'two', 'off'])
    expect(await json(['nodes', 'view', id])).toMatchObject({ name: 'two', maxMemoryMb: 2048, isOnline: false })
    expect(await ok(['nodes', 'list', '-o', 'name'])).toContain('two')
    expect((await ok(['nodes', 'enroll-token', 'two'])).trim().length).toBeGreaterThan(20)
    const key = await ok(['nodes', 'rotate-key', 'two', '--yes'])
    expect(key.trim().length).toBeGreaterThan(20)
    expect(await json(['nodes', 'key', 'two'])).toMatchObject({ exists: true })
    await ok(['nodes', 'revoke-key', 'two', '--yes'])
    expect(await json(['nodes', 'key', 'two'])).toMatchObject({ exists: false })
    expect(await json(['nodes', 'stats', 'box'])).toHaveProperty('resources')
    await ok(['allocations', 'add', '--node', 'two', '--ip', '127.0.0.1', '--ports', '25570-25572'])
    await ok(['allocations', 'edit', '25571', '--node', 'two', '--alias', 'play.example.org'])
    await ok(['allocations', 'remove', '25570', '--node', 'two', '--yes'])
    const left = await json(['allocations', 'list', '--node', 'two'])
    expect(left).toHaveLength(2)
    expect(left).toContainEqual(expect.objectContaining({ port: 25571, alias: 'play.example.org' }))
    await ok(['nodes', 'delete', 'two', '--yes'])
  })

  it('servers: creation, edit, power, waiting, figures', async () => {
    const request = ['--template', 'talk', '--node', 'box', '--disk', '64M', '--port', String(await quietPort())]
    const made = await json(['servers', 'create', '--name', 'demo', ...request, '--start', '--wait'])
    expect(made).toMatchObject({ status: 'running', installed: true })
    expect(await ok(['servers', 'list', '--state', 'running', '-o', 'name'])).toBe('demo\n')
    await ok(['servers', 'edit', 'demo', '--env', 'MOTD=new', '--description', 'for all'])
    const resized = await json(['servers', 'resize', 'demo', '--disk', '3G', '--wait'])
    expect(resized).toMatchObject({ allocatedDiskMb: 3072 })
    expect(await json(['servers', 'view', 'demo'])).toMatchObject({
      description: 'for all',
      environment: { MOTD: 'new' },
    })
    const figures = () => panel.client.call(getServerStats, { params: { serverId: made.id } })
    await until('figures', async () => ((await figures()).memoryUsageMb ?? 0) > 0)
    expect((await json(['servers', 'stats', 'demo'])).memoryUsageMb).toBeGreaterThan(0)

    const restarted = await json(['servers', 'restart', 'demo', '--wait'])
    expect(restarted).toMatchObject({ server: 'demo', action: 'restart', status: 'running' })
    expect((await panel.server(made.id)).pid).not.toBe(made.pid)
    await ok(['servers', 'kill', 'demo', '--wait'])
    await ok(['servers', 'start', 'demo', '--no-wait'])
    expect(await json(['servers', 'wait', 'demo', '--for', 'state=running'])).toMatchObject({ status: 'running' })
    await ok(['servers', 'stop', 'demo', '--wait'])
    await ok(['servers', 'power', 'start', 'demo', '--wait'])
    await refused(7, ['servers', 'install', 'demo', '--wait'])
    await ok(['servers', 'power', 'stop', 'demo', '--wait'])
    await writeFile(join(panel.filesOf(made.id), 'world'), 'x')
    await ok(['servers', 'install', 'demo', '--wait'])
    // A process has no container to be made anew.
    await refused(7, ['servers', 'rebuild', 'demo', '--wait'])
    expect(await readFile(join(panel.filesOf(made.id), 'world'), 'utf8')).toBe('x')
    await ok(['servers', 'reinstall', 'demo', '--confirm', 'demo', '--wait', '--start'])
    await expect(readFile(join(panel.filesOf(made.id), 'world'))).rejects.toThrow('ENOENT')
    expect(await panel.server(made.id)).toMatchObject({ status: 'running', installed: true })
  })

  it('console', async () => {
    expect(await ok(['console', 'expect', 'demo', 'hi bob', '--send', 'bob'])).toContain('hi bob')
    await ok(['console', 'send', 'demo', 'eve'])
    await until('the answer', async () => (await ok(['console', 'logs', 'demo', '--tail', '5'])).includes('hi eve'))
    expect(await ok(['console', 'history', 'demo', '--grep', 'hi bob'])).toContain('hi bob')
    expect(await ok(['console', 'attach', 'demo', '--no-tui', '--tail', '0'], { input: 'ann\n' })).toContain('hi ann')
    const whole = join(panel.home, 'demo.log')
    await ok(['console', 'logs', 'demo', '--all', '--out', whole])
    expect(await readFile(whole, 'utf8')).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z system .*\n(.*\n)*.* stdout hi bob\n/)
    await refused(2, ['console', 'logs', 'demo', '--all', '--follow'])
    await refused(15, ['console', 'history', 'demo', '--grep', 'nothing of the kind'])
    await refused(124, ['console', 'expect', 'demo', 'never', '--timeout', '1s'])
  })

  it('files of servers', async () => {
    const local = join(panel.home, 'local.txt')
    await writeFile(local, 'one\n')
    expect(await json(['files', 'put', 'demo', 'notes.txt', local])).toMatchObject({ path: 'notes.txt', size: 4 })
    expect(await ok(['files', 'get', 'demo', 'notes.txt', '-'])).toBe('one\n')
    await refused(7, ['files', 'put', 'demo', 'notes.txt', local, '--if-absent'])
    await refused(7, ['files', 'put', 'demo', 'notes.txt', local, '--if-match', 'another'])
    await ok(['files', 'put', 'demo', 'notes.txt', '-'], { input: 'two\n' })
    const copy = join(panel.home, 'copy.txt')
    await ok(['files', 'get', 'demo', 'notes.txt', copy])
    expect(await readFile(copy, 'utf8')).toBe('two\n')
    await refused(2, ['files', 'get', 'demo', 'notes.txt', copy])
    await refused(6, ['files', 'get', 'demo', 'none.txt', '-'])
    await refused(8, ['files', 'get', 'demo', '../notes.txt', '-'])
    await refused(2, ['files', 'put', 'demo', 'notes.txt', join(panel.home, 'none.txt')])

    await ok(['files', 'mkdir', '-p', 'demo:dir/sub'])
    await ok(['files', 'cp', local, 'demo:dir/a.txt'])
    await refused(7, ['files', 'cp', local, 'demo:dir/a.txt'])
    expect(await ok(['files', 'cat', 'demo:dir/a.txt'])).toBe('one\n')
    await ok(['files', 'ln', 'a.txt', 'demo:dir/link'])
    await ok(['files', 'chmod', '-R', '640', 'demo:dir'])
    expect(await json(['files', 'ls', 'demo:dir'])).toMatchObject([
      { name: 'a.txt', mode: 0o640, size: 4 },
      { name: 'link', kind: 'link', target: 'a.txt' },
      { name: 'sub', kind: 'folder' },
    ])
    await refused(2, ['files', 'cp', 'demo:dir', 'demo:copy'])
    expect(await json(['files', 'cp', '-r', 'demo:dir', 'demo:copy'])).toMatchObject({ entries: 4, problems: [] })
    await ok(['files', 'mv', 'demo:copy/a.txt', 'demo:copy/b.txt'])
    const tree = join(panel.home, 'tree')
    const down = await refused(3, ['files', 'cp', '-r', 'demo:copy', tree])
    expect(down).toContain('/copy/link: is no file or folder, and was left out')
    expect(await readFile(join(tree, 'b.txt'), 'utf8')).toBe('one\n')
    await ok(['files', 'cp', '-r', tree, 'demo:back'])
    const sums = await ok(['files', 'sum', 'demo:back', 'demo:dir/*.txt'])
    expect(sums.split('\n').filter((line) => /^[0-9a-f]{64} {2}(back\/b|dir\/a)\.txt$/.test(line))).toHaveLength(2)
    expect(await ok(['files', 'find', 'demo', '--text', 'ONE', '-i', '-o', 'name'])).toContain('/back/b.txt')
    await refused(15, ['files', 'find', 'demo', '--name', 'nothing'])
    expect((await json(['files', 'du', 'demo'])).folders.map(({ path }: { path: string }) => path).sort()).toEqual([
      '/back',
      '/copy',
      '/dir',
    ])
    await ok(['files', 'edit', 'demo:dir/a.txt', '--editor', 'echo three >'])
    expect(await ok(['files', 'cat', 'demo:dir/*.txt'])).toBe('three\n')
    await ok(['files', 'tar', 'demo:pack.tgz', 'demo:dir', 'demo:notes.txt'])
    expect(await ok(['files', 'untar', '-t', 'demo:pack.tgz', '-o', 'name'])).toContain('dir/a.txt')
    await ok(['files', 'untar', 'demo:pack.tgz', 'demo:unpacked'])
    expect(await ok(['files', 'cat', 'demo:unpacked/dir/a.txt'])).toBe('three\n')
    await refused(7, ['files', 'tar', 'demo:pack.tgz', 'demo:dir'])
    expect(await json(['files', 'tar', 'demo:later.zip', 'demo:dir', '--detach'])).toHaveProperty('jobId')
    await refused(8, ['files', 'pull', 'http://127.0.0.2:1/x', 'demo:'])
    await ok(['files', 'pull', `${panel.url}/api/openapi.json`, 'demo:unpacked'])
    const synced = join(panel.home, 'synced')
    await mkdir(synced)
    await refused(3, ['files', 'sync', 'demo:dir', synced, '--dry-run']) // the link is left out
    expect(await readdir(synced)).toEqual([])
    await refused(3, ['files', 'sync', 'demo:dir', synced]) // the link is left out
    expect(await readFile(join(synced, 'a.txt'), 'utf8')).toBe('three\n')
    await writeFile(join(synced, 'a.txt'), 'thref\n')
    expect((await json(['files', 'sync', synced, 'demo:unpacked/dir'])).steps).toEqual([
      { action: 'update', kind: 'file', path: 'a.txt' },
    ])
    expect(await ok(['files', 'cat', 'demo:unpacked/dir/a.txt'])).toBe('thref\n')
    await ok(['files', 'rm', '-r', '--yes', 'demo:unpacked', 'demo:pack.tgz'])
    await refused(2, ['files', 'rm', 'demo:dir'])
    await refused(6, ['files', 'rm', 'demo:nothing*'])
    await ok(['files', 'rm', '-r', '--yes', 'demo:dir', 'demo:copy', 'demo:back'])
    await refused(6, ['files', 'ls', 'demo:dir'])
  })

  it('event streams, which end by Ctrl-C', async () => {
    for (const args of [
      ['events', 'tail'],
      ['servers', 'events', 'demo'],
    ]) {
      const first = await panel.follow([...args, '-o', 'jsonl'], 'server_', () =>
        panel.run(['servers', 'restart', 'demo']),
      )
      expect(JSON.parse(first)).toMatchObject({ type: expect.stringMatching(/^server_/) })
      walk.note(args.slice(0, 2).join(' '))
      await ok(['servers', 'wait', 'demo', '--for', 'state=running'])
    }
  })

  it('api keys, users, roles, permissions', async () => {
    const file = join(panel.home, 'reader.key')
    const create = ['api-keys', 'create', '--name', 'reader', '--permission', 'server.read', '--out-file', file]
    await ok(create)
    const env = { PANEL_TOKEN: (await readFile(file, 'utf8')).trim() }
    expect(await ok(['servers', 'list', '-o', 'name'], { env })).toBe('demo\n')
    await refused(5, ['servers', 'stop', 'demo'], { env })
    await ok(['api-keys', 'edit', 'reader', '--no-enabled'])
    await refused(4, ['servers', 'list'], { env })
    expect(await json(['api-keys', 'view', 'reader'])).toMatchObject({ name: 'reader', enabled: false })
    expect(await ok(['api-keys', 'list', '-o', 'name'])).toContain('reader')
    await ok(['api-keys', 'usage', 'reader'])
    await ok(['api-keys', 'revoke', 'reader', '--yes'])
    await refused(6, ['api-keys', 'view', 'reader'])

    const request = ['--email', 'eve@example.org', '--username', 'eve', '--role', 'User', '--password-stdin']
    await ok(['users', 'create', ...request], { input: PASSWORD })
    expect(await json(['users', 'view', 'eve'])).toMatchObject({ email: 'eve@example.org' })
    expect(await json(['users', 'list'])).toHaveLength(2)
    expect(await ok(['roles', 'list', '-o', 'name'])).toContain('Administrator')
    expect(await ok(['permissions', 'list'])).toContain('server.start')
  })

  it('audit: list, view, export, check, follow', async () => {
    expect(await ok(['audit', 'list', '--action', 'server.', '--limit', '5'])).toContain('server.')
    const [row] = await json(['audit', 'list', '--limit', '1'])
    expect(await json(['audit', 'view', row.id])).toEqual(row)
    await refused(6, ['audit', 'view', 'aud_nothing'])
    const out = join(panel.home, 'audit.jsonl')
    await ok(['audit', 'export', '--format', 'jsonl', '--out', out])
    const lines = (await readFile(out, 'utf8')).trimEnd().split('\n')
    expect(JSON.parse(lines[0] ?? '')).toEqual(row)
    await refused(2, ['audit', 'export', '--out', out])
    await ok(['audit', 'export', '--out', out, '--force', '--action', 'server.start'])
    expect(await readFile(out, 'utf8')).toMatch(/^"id","timestamp","action"/)
    expect(await readdir(panel.home)).not.toContain('audit.jsonl.part')
    expect((await ok(['audit', 'export', '--format', 'json'])).trim()).toMatch(/^\[[\s\S]*\]$/)
    const { proof, checked } = await json(['audit', 'verify'])
    expect(checked).toBeGreaterThan(lines.length - 1)
    expect(await json(['audit', 'verify', '--expect', proof])).toMatchObject({ intact: true })
    expect(await refused(11, ['audit', 'verify', '--expect', `1:${'f'.repeat(64)}`])).toContain('row 1')
    const first = await panel.follow(['audit', 'tail', '--tail', '0', '-o', 'jsonl'], 'location.create', () =>
      panel.run(['locations', 'create', '--name', 'for the tail']),
    )
    expect(JSON.parse(first)).toMatchObject({ action: 'location.create', ipAddress: '127.0.0.1' })
    walk.note('audit tail')
  })

  it('system errors: list, view, resolve, export', async () => {
    for (const component of ['one', 'two', 'three']) {
      const input = JSON.stringify({ component, message: `the screen ${component} broke` })
      await ok(['api', '/api/system-errors/report', '--method', 'POST', '--input', '-'], { input })
    }
    const open = async () => await json(['system-errors', 'list', '--unresolved', '--component', 'client/'])
    await until('they are written down', async () => (await open()).length === 3)
    const found: { component: string; id: string }[] = await open()
    const idOf = (component: string): string => found.find((one) => one.component === `client/${component}`)?.id ?? ''
    const [three, two] = [idOf('three'), idOf('two')]
    expect(await ok(['system-errors', 'view', three])).toContain('the screen three broke')
    await ok(['system-errors', 'resolve', three, two, '--note', 'a new screen'])
    expect(await json(['system-errors', 'view', two])).toMatchObject({ status: 'resolved', note: 'a new screen' })
    await refused(6, ['system-errors', 'resolve', 'err_nothing'])
    await refused(2, ['system-errors', 'resolve-all'])
    await ok(['system-errors', 'resolve-all', '--component', 'client/one', '--yes'])
    expect(await open()).toEqual([])
    expect(await ok(['system-errors', 'export', '--resolved', '--format', 'jsonl'])).toContain('the screen one broke')
  })

  it('sessions: login by password and key, contexts, profile, logout', async () => {
    const url = panel.url
    const request = ['login', url, '--username', 'eve', '--password-stdin', '--name', 'eve']
    await ok(request, { ...BY_CONTEXT, input: PASSWORD })
    expect(await json(['whoami'], BY_CONTEXT)).toMatchObject({ username: 'eve' })
    expect(await json(['auth', 'status'], BY_CONTEXT)).toMatchObject({ context: 'eve', url, username: 'eve' })
    const token = (await ok(['auth', 'token'], BY_CONTEXT)).trim()
    expect((await fetch(`${url}/api/auth/me`, { headers: { authorization: `Bearer ${token}` } })).status).toBe(200)
    expect((await run(['auth', 'can-i', 'server.create'], BY_CONTEXT)).code).toBe(5)
    expect(await ok(['auth', 'can-i', 'server.create'])).toBe('yes\n')
    expect(await json(['context', 'current'], BY_CONTEXT)).toMatchObject({ name: 'eve', url })
    await ok(['context', 'create', 'spare', '--url', url], BY_CONTEXT)
    await refused(7, ['context', 'create', 'spare', '--url', url], BY_CONTEXT)
    await ok(['context', 'use', 'spare'], BY_CONTEXT)
    await refused(4, ['servers', 'list'], BY_CONTEXT)
    await ok(['context', 'use', 'eve'], BY_CONTEXT)
    await ok(['context', 'delete', 'spare'], BY_CONTEXT)
    expect(await ok(['context', 'list', '-o', 'name'], BY_CONTEXT)).toBe('eve\n')

    const old = join(panel.home, 'old')
    await writeFile(old, PASSWORD)
    const change = ['profile', 'password', '--password-stdin', '--current-password-file', old]
    await ok(change, { ...BY_CONTEXT, input: `${PASSWORD}2` })
    await refused(4, request, { ...BY_CONTEXT, input: PASSWORD })
    await ok(['logout'], BY_CONTEXT)
    await refused(4, ['whoami'], BY_CONTEXT)
    await ok(['login', url, '--token-stdin'], { ...BY_CONTEXT, input: panel.token })
    const sessions = await json(['profile', 'sessions', 'list'], BY_CONTEXT)
    expect(sessions).toContainEqual(expect.objectContaining({ current: true }))
    await ok(['profile', 'sessions', 'revoke', '--others', '--yes'], BY_CONTEXT)
  })

  it('settings: groups, a mail through a real server, secrets from files', async () => {
    const mail = await startMailServer()
    try {
      const secret = join(panel.home, 'mail-password')
      await writeFile(secret, 'let-me-in\n')
      expect(await json(['settings', 'security', 'set', '--lockout-max-attempts', '6'])).toMatchObject({
        lockoutMaxAttempts: 6,
      })
      expect(await ok(['settings', 'security', 'get'])).toMatch(/LOCKOUT-MAX-ATTEMPTS +6/)
      await refused(8, ['settings', 'security', 'set', '--file-tunnel-max-upload-mb', '501'])
      await refused(2, ['settings', 'security', 'set'])
      expect(await json(['settings', 'upload-limit'])).toMatchObject({ maxUploadMb: 100 })

      const server = ['settings', 'smtp', 'set', '--host', '127.0.0.1', '--port', String(mail.port), '--tls', 'auto']
      const sender = ['--from', 'Panel <panel@example.org>', '--user', 'panel']
      const masked = await ok([...server, ...sender, '--password-file', secret])
      expect(masked).toMatch(/PASSWORD +\*{8}/)
      expect(masked).not.toContain('let-me-in')
      expect(await json(['settings', 'smtp', 'test', '--to', 'eve@example.org'])).toMatchObject({ ok: true })
      expect(mail.received).toMatchObject([{ to: ['eve@example.org'], user: 'panel' }])
      await ok(['settings', 'smtp', 'set', '--password-stdin'], { input: 'wrong' })
      const denied = await run(['settings', 'smtp', 'test', '--to', 'eve@example.org'])
      expect(denied).toMatchObject({ code: 11, stdout: expect.stringContaining('check user name and password') })
      await refused(2, ['settings', 'smtp', 'set', '--unset', 'colour'])
      await ok(['settings', 'smtp', 'set', '--unset', 'host', '--unset', 'user', '--unset', 'password'])
      expect(await json(['settings', 'smtp', 'get'])).toMatchObject({
        host: null,
        username: null,
        password: null,
        requireTls: null,
      })
    } finally {
      await mail.close()
    }
    await ok(['settings', 'theme', 'set', '--panel-name', 'Our games', '--enabled-themes', 'dark'])
    expect(await json(['settings', 'theme', 'get'])).toMatchObject({ panelName: 'Our games', enabledThemes: ['dark'] })
    await refused(2, ['settings', 'theme', 'reset'])
    await ok(['settings', 'theme', 'reset', '--yes'])
    expect(await json(['settings', 'public'], { env: { PANEL_TOKEN: '' } })).toMatchObject({
      panelName: 'panel',
      enabledThemes: ['light', 'dark'],
    })
    await ok(['settings', 'localization', 'set', '--locale', 'de', '--timezone', 'Europe/Berlin'])
    expect(await json(['settings', 'localization', 'get'])).toMatchObject({ timezone: 'Europe/Berlin' })
    expect(await ok(['locale', '--jq', '.locale'], { env: { PANEL_TOKEN: '' } })).toBe('de\n')
    await ok(['settings', 'mod-manager', 'set', '--modrinth-key-stdin'], { input: 'mrp_secret' })
    expect(await json(['settings', 'mod-manager', 'get'])).toMatchObject({ modrinthApiKey: '********' })
    const all: { id: string; value: unknown }[] = await json(['settings', 'list'])
    expect(all).toContainEqual(expect.objectContaining({ id: 'localization.locale', value: 'de' }))
    expect(all).toContainEqual(expect.objectContaining({ id: 'oidc.whmcs.clientId', value: null }))
    expect(JSON.stringify(all)).not.toContain('mrp_secret')
  })

  it('accounts and roles: invite, edit, ban, members, reasons, deletion', async () => {
    expect(await ok(['roles', 'presets', '-o', 'name'])).toContain('support')
    await ok(['roles', 'create', '--name', 'crew', '--preset', 'support', '--permission', 'apikey.manage'])
    await ok(['roles', 'edit', 'crew', '--description', 'the crew'])
    await ok(['roles', 'grant', 'crew', '--permission', 'backup.read'])
    await ok(['roles', 'revoke', 'crew', '--permission', 'backup.read'])
    await refused(7, ['roles', 'edit', 'Administrator', '--name', 'root'])

    const token = await ok(['users', 'invite', '--email', 'amy@example.org', '--role', 'User'])
    const [tokenFile, secret] = [join(panel.home, 'amy.token'), join(panel.home, 'amy.password')]
    await writeFile(tokenFile, token)
    await writeFile(secret, PASSWORD)
    const accept = ['users', 'accept-invite', '--url', panel.url, '--token-file', tokenFile, '--username', 'amy']
    await ok([...accept, '--password-file', secret, '--name', 'amy'], BY_CONTEXT)
    await refused(6, [...accept, '--password-file', secret], BY_CONTEXT)
    expect(await json(['whoami', '--context', 'amy'], BY_CONTEXT)).toMatchObject({ username: 'amy' })
    await ok(['roles', 'members', 'crew', '--add', 'amy'])
    expect(await json(['roles', 'view', 'crew'])).toMatchObject({
      description: 'the crew',
      users: [{ username: 'amy' }],
    })
    expect(await ok(['users', 'roles', 'amy', '-o', 'name'])).toContain('crew')
    await refused(7, ['roles', 'delete', 'crew', '--yes'])
    expect(await ok(['permissions', 'explain', 'server.read', '--user', 'amy'])).toContain('role crew has server.read')
    expect((await run(['permissions', 'explain', 'server.start', '--user', 'amy'])).code).toBe(5)
    const why = await panel.run(['auth', 'can-i', 'server.read', '--why', '--context', 'amy'], BY_CONTEXT)
    expect(why).toMatchObject({ code: 0, stdout: 'yes\n', stderr: expect.stringContaining('role crew') })
    await ok(['roles', 'members', 'crew', '--remove', 'amy'])

    await ok(['users', 'edit', 'amy', '--first-name', 'Amy', '--no-roles'])
    expect(await json(['users', 'view', 'amy'])).toMatchObject({ firstName: 'Amy', roles: [] })
    await ok(['users', 'ban', 'amy', '--reason', 'noise', '--expires', '1h'])
    await refused(4, ['whoami', '--context', 'amy'], BY_CONTEXT)
    await ok(['users', 'unban', 'amy'])
    await ok(['users', 'unlock', 'amy'])
    await ok(['users', 'edit', 'amy', '--password-stdin'], { input: `${PASSWORD}3` })
    const again = ['login', panel.url, '--username', 'amy', '--password-stdin', '--name', 'amy']
    await ok(again, { ...BY_CONTEXT, input: `${PASSWORD}3` })

    await ok(['nodes', 'assign', 'box', '--user', 'amy', '--expires', '1h'])
    expect(await ok(['nodes', 'assignments', 'box', '-o', 'name'])).toBe('amy\n')
    expect(await ok(['users', 'nodes', 'amy', '-o', 'name'])).toBe('box\n')
    expect(await ok(['nodes', 'accessible', '--context', 'amy', '-o', 'name'], BY_CONTEXT)).toBe('box\n')
    const [game] = await json(['templates', 'list'])
    const size = ['--memory', '64', '--cpu', '0.1', '--disk', '64', '--port', '26001']
    const make = ['servers', 'create', '--name', 'amys', '--template', game.id, '--node', 'box', ...size]
    await ok([...make, '--context', 'amy'], BY_CONTEXT)
    await ok(['servers', 'delete', 'amys', '--confirm', 'amys', '--wait'])
    await ok(['nodes', 'unassign', 'box', '--user', 'amy'])
    await refused(6, [...make, '--context', 'amy'], BY_CONTEXT) // she does not see it any more
    await ok(['nodes', 'assign', '--every', '--role', 'crew'])
    expect(await ok(['roles', 'nodes', 'crew', '-o', 'name'])).toContain('box')
    await ok(['nodes', 'unassign', '--every', '--role', 'crew'])
    await ok(['roles', 'delete', 'crew', '--yes'])
  })

  it('members of a server, invitations to it, its owner', async () => {
    expect(await ok(['access', 'presets', '-o', 'name'])).toContain('readOnly')
    await ok(['access', 'grant', 'demo', '--user', 'amy', '--preset', 'readOnly', '--expires', '1h'])
    expect(await json(['access', 'list', 'demo'])).toMatchObject([{ user: { username: 'amy' } }])
    expect(await ok(['users', 'servers', 'amy', '-o', 'csv'])).toContain('member')
    await ok(['access', 'revoke', 'demo', '--user', 'amy', '--yes'])

    const file = join(panel.home, 'invite.token')
    const invite = async (email: string): Promise<void> =>
      writeFile(file, await ok(['invites', 'create', 'demo', '--email', email, '--permission', 'server.read']))
    await invite('amy@example.org')
    expect(await json(['invites', 'view', '--token-file', file])).toMatchObject({ serverName: 'demo' })
    await ok(['invites', 'accept', '--token-file', file, '--context', 'amy'], BY_CONTEXT)
    expect(await ok(['servers', 'list', '--context', 'amy', '-o', 'name'], BY_CONTEXT)).toBe('demo\n')
    await invite('zoe@example.org')
    const register = ['invites', 'register', '--url', panel.url, '--token-file', file, '--username', 'zoe']
    await ok([...register, '--password-stdin', '--name', 'zoe'], { ...BY_CONTEXT, input: PASSWORD })
    await invite('kim@example.org')
    const [open] = await json(['invites', 'list', 'demo'])
    await ok(['invites', 'cancel', 'demo', '--invite', open.id])
    await refused(7, ['invites', 'view', '--token-file', file])

    await ok(['servers', 'transfer-ownership', 'demo', '--to', 'zoe', '--yes'])
    await refused(7, ['users', 'delete', 'zoe', '--yes'])
    await ok(['users', 'delete', 'zoe', '--force', '--yes'])
    await ok(['users', 'delete', 'amy', '--yes'])
    await ok(['context', 'use', 'eve'], BY_CONTEXT)
  })

  it('tooling', async () => {
    expect(await ok(['api', '/api/servers', '--unwrap', '--jq', '.[].name'])).toBe('demo\n')
    expect(JSON.parse(await ok(['openapi']))).toHaveProperty('openapi', '3.1.0')
    expect(await ok(['commands'])).toContain('servers list')
    for (const shell of ['bash', 'zsh', 'fish']) expect(await ok(['completion', shell])).toContain('panel')
    expect(await json(['version', '--check'])).toHaveProperty('cli')
  })

  it('an empty daemon: status, setup, down', async () => {
    const dataDir = join(panel.home, 'empty')
    const place = ['--data-dir', dataDir]
    await refused(3, ['daemon', 'status', ...place])
    const port = await quietPort()
    const url = `http://127.0.0.1:${port}`
    const daemon = panel.spawn(['daemon', 'run', '--listen', `127.0.0.1:${port}`, ...place])
    try {
      await until('the daemon is ready', async () => (await fetch(`${url}/readyz`)).ok)
      expect(await json(['daemon', 'status', ...place])).toMatchObject({ status: 'running', url, ready: true })
      const env = { ...BY_CONTEXT.env, PANEL_URL: url }
      expect(await json(['setup', 'status'], { env })).toEqual({ setupRequired: true })
      const request = ['setup', '--admin-email', 'a@example.org', '--admin-username', 'amy', '--password-stdin']
      await ok([...request, '--name', 'fresh'], { env, input: PASSWORD })
      expect(await json(['setup', 'status'], { env })).toEqual({ setupRequired: false })
      expect(await json(['whoami', '--context', 'fresh'], BY_CONTEXT)).toMatchObject({ username: 'amy' })
      await refused(7, request, { env, input: PASSWORD })
      // The games of the panel that the environment names are not those of this machine's other panel.
      await refused(2, ['down', '--servers', ...place])
      expect(await panel.run(['servers', 'list', '--state', 'running', '-o', 'name'])).toMatchObject({
        stdout: 'demo\n',
      })
      await ok(['down', ...place])
      await until('the daemon has ended', async () => daemon.exitCode === 0)
      const { file, status, copies } = await json(['db', 'check', ...place])
      expect({ status, copies }).toEqual({ status: 'ok', copies: [] })
      const copy = join(panel.home, 'copy.db')
      await copyFile(file, copy)
      await refused(2, ['db', 'restore', copy, ...place])
      await refused(6, ['db', 'restore', 'none.db', '--yes', ...place])
      expect(await json(['db', 'restore', copy, '--yes', ...place])).toMatchObject({ file, from: copy })
    } finally {
      daemon.kill('SIGKILL')
    }
  })

  it('deletion of a server: its process and its files are gone', async () => {
    const { id, pid } = await json(['servers', 'view', 'demo'])
    await refused(2, ['servers', 'delete', 'demo'])
    await refused(7, ['servers', 'delete', 'demo', '--confirm', 'demo', '--wait'])
    await ok(['servers', 'stop', 'demo', '--wait'])
    await ok(['servers', 'delete', 'demo', '--confirm', 'demo', '--wait'])
    await expect(readFile(join(panel.filesOf(id), 'game.sh'))).rejects.toThrow('ENOENT')
    expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    await refused(6, ['servers', 'view', 'demo'])
  })

  it('leaves none out', () => {
    // `panel up` is tried in test/e2e/up.test.ts: it wants a machine of its own; orphans in test/faults/stores.test.ts: they
    // want a node that has some. The lists are walked by files of their own.
    const elsewhere = [
      'up',
      'nodes orphans list',
      'nodes orphans adopt',
      'nodes orphans purge',
      // It wants a container, and is refused above; test/agent/docker/settings.test.ts has one.
      'servers rebuild',
      ...SCHEDULES,
      ...SELF_SERVICE,
      ...POOLS,
      ...EGG_SOURCES,
      ...JOBS,
      ...LIFE,
      ...PORTS,
      ...JOBS,
      ...OVERVIEW,
      ...SFTP,
      ...SIGN_IN,
      ...ALERTS,
      ...BACKUP_POLICIES,
      ...BACKUP_STORES,
      ...BACKUP_COMMANDS,
      ...DATABASE_COMMANDS,
      ...PLUGIN_COMMANDS,
      ...MIGRATION_COMMANDS,
    ]
    expect(walk.left().filter((path) => !elsewhere.includes(path))).toEqual([])
  })
})
