import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SplitPanel } from '../e2e/split-panel.ts'
import { quietPort, until } from '../e2e/wait.ts'
import type { Ran } from '../run-panel.ts'
import { SELF_SERVICE } from './self-service-paths.ts'

/** Answers `hi` to what is typed and ends at `quit`. */
const GAME = `
echo ready
while read -r line; do
  [ "$line" = quit ] && exit 0
  echo "hi $line"
done
`

const PASSWORD = 'Correct horse 9 battery!'
const done = new Set<string>()
let panel: SplitPanel
let paths: string[]

type Options = Parameters<SplitPanel['run']>[1]

/** Runs a command and notes which one it was. */
async function run(args: readonly string[], options?: Options): Promise<Ran> {
  const ran = await panel.run(args, options)
  const path = paths.find((known) => `${args.join(' ')} `.startsWith(`${known} `))
  if (path !== undefined && ran.code === 0) done.add(path)
  return ran
}

async function ok(args: readonly string[], options?: Options): Promise<string> {
  const ran = await run(args, options)
  expect(ran, `panel ${args.join(' ')}: ${ran.stderr}`).toMatchObject({ code: 0 })
  return ran.stdout
}

const json = async (args: readonly string[], options?: Options) =>
  JSON.parse(await ok([...args, '-o', 'json'], options))

async function refused(code: number, args: readonly string[], options?: Options): Promise<string> {
  const ran = await run(args, options)
  expect(ran, `panel ${args.join(' ')}: ${ran.stderr}`).toMatchObject({ code })
  return ran.stderr
}

/** Without a URL and a token in the environment: what the contexts say is in force. */
const BY_CONTEXT = { env: { PANEL_URL: '', PANEL_TOKEN: '' } }

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const known: { path: string }[] = JSON.parse((await panel.run(['commands', '--json'])).stdout)
  // The longest first, so that `profile sessions list` is not taken for something shorter.
  paths = known.map(({ path }) => path).sort((a, b) => b.length - a.length)
  // How the stage was made, and what runs in it.
  for (const path of ['daemon run', 'agent enroll', 'agent run']) done.add(path)
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
  })

  it('nodes and allocations', async () => {
    const more = ['--hostname', 'two', '--address', '127.0.0.1', '--memory', '1G', '--cpu', '1']
    const { id } = await json(['nodes', 'create', '--name', 'two', '--location', 'here', ...more])
    await ok(['nodes', 'edit', 'two', '--memory', '2G'])
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
    const wish = ['--template', 'talk', '--node', 'box', '--disk', '64M', '--port', String(await quietPort())]
    const made = await json(['servers', 'create', '--name', 'demo', ...wish, '--start', '--wait'])
    expect(made).toMatchObject({ status: 'running', installed: true })
    expect(await ok(['servers', 'list', '--state', 'running', '-o', 'name'])).toBe('demo\n')
    await ok(['servers', 'edit', 'demo', '--env', 'MOTD=new', '--description', 'for all'])
    expect(await json(['servers', 'view', 'demo'])).toMatchObject({
      description: 'for all',
      environment: { MOTD: 'new' },
    })
    await until('figures', async () => (await json(['servers', 'stats', 'demo'])).memoryUsageMb > 0)

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
    await refused(15, ['console', 'history', 'demo', '--grep', 'nothing of the kind'])
    await refused(124, ['console', 'expect', 'demo', 'never', '--timeout', '1s'])
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
      done.add(args.slice(0, 2).join(' '))
      await ok(['servers', 'wait', 'demo', '--for', 'state=running'])
    }
  })

  it('api keys, users, roles, permissions, audit', async () => {
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

    const wish = ['--email', 'eve@example.org', '--username', 'eve', '--role', 'User', '--password-stdin']
    await ok(['users', 'create', ...wish], { input: PASSWORD })
    expect(await json(['users', 'view', 'eve'])).toMatchObject({ email: 'eve@example.org' })
    expect(await json(['users', 'list'])).toHaveLength(2)
    expect(await ok(['roles', 'list', '-o', 'name'])).toContain('Administrator')
    expect(await ok(['permissions', 'list'])).toContain('server.start')
    expect(await ok(['audit', 'list', '--action', 'server.', '--limit', '5'])).toContain('server.')
  })

  it('sessions: login by password and key, contexts, profile, logout', async () => {
    const url = panel.url
    const wish = ['login', url, '--username', 'eve', '--password-stdin', '--name', 'eve']
    await ok(wish, { ...BY_CONTEXT, input: PASSWORD })
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
    await refused(4, wish, { ...BY_CONTEXT, input: PASSWORD })
    await ok(['logout'], BY_CONTEXT)
    await refused(4, ['whoami'], BY_CONTEXT)
    await ok(['login', url, '--token-stdin'], { ...BY_CONTEXT, input: panel.token })
    const sessions = await json(['profile', 'sessions', 'list'], BY_CONTEXT)
    expect(sessions).toContainEqual(expect.objectContaining({ current: true }))
    await ok(['profile', 'sessions', 'revoke', '--others', '--yes'], BY_CONTEXT)
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
      const wish = ['setup', '--admin-email', 'a@example.org', '--admin-username', 'amy', '--password-stdin']
      await ok([...wish, '--name', 'fresh'], { env, input: PASSWORD })
      expect(await json(['setup', 'status'], { env })).toEqual({ setupRequired: false })
      expect(await json(['whoami', '--context', 'fresh'], BY_CONTEXT)).toMatchObject({ username: 'amy' })
      await refused(7, wish, { env, input: PASSWORD })
      // The games of the panel that the environment names are not those of this machine's other panel.
      await refused(2, ['down', '--servers', ...place])
      expect(await panel.run(['servers', 'list', '--state', 'running', '-o', 'name'])).toMatchObject({
        stdout: 'demo\n',
      })
      await ok(['down', ...place])
      await until('the daemon has ended', async () => daemon.exitCode === 0)
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
    // `panel up` is tried in test/e2e/up.test.ts: it wants a machine of its own. What needs mail is in self-service.test.ts.
    const elsewhere = ['up', ...SELF_SERVICE]
    expect(paths.filter((path) => !done.has(path) && !elsewhere.includes(path))).toEqual([])
  })
})
