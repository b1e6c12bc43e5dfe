import { spawn } from 'node:child_process'
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { DIST, type RunOptions, runPanel } from '../run-panel.ts'
import { runBriefly } from './command-walk.ts'
import { type PanelPeer, PEER_TOKEN, startPanelPeer } from './panel-peer.ts'

let peer: PanelPeer
let home: string

const run = (args: readonly string[], options: RunOptions = {}) =>
  runBriefly(args, { ...options, env: { HOME: home, PANEL_URL: peer.url, PANEL_TOKEN: PEER_TOKEN, ...options.env } })

async function setUp(status: string): Promise<void> {
  await peer.close()
  peer = await startPanelPeer(status)
}

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-cli-'))
  peer = await startPanelPeer()
})

afterEach(async () => {
  await peer.close()
  await rm(home, { recursive: true, force: true })
})

describe('exit codes and errors', () => {
  it('refuses an unknown command with a suggestion and runs nothing', async () => {
    const { code, stdout, stderr } = await run(['servers', 'lst'])
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain('Did you mean list?')
    expect(peer.received).toEqual([])
  })

  it.each([
    [401, 'UNAUTHENTICATED', 4],
    [403, 'PERMISSION_DENIED', 5],
    [409, 'CONFLICT', 7],
    [400, 'VALIDATION_ERROR', 8],
    [423, 'SERVER_SUSPENDED', 7],
    [500, 'INTERNAL_ERROR', 1],
  ])('answers %i %s with exit %i', async (status, code, exit) => {
    peer.refuse('/api/servers', { status, code })
    const ran = await run(['servers', 'list'])
    expect({ code: ran.code, stdout: ran.stdout }).toEqual({ code: exit, stdout: '' })
    expect(ran.stderr).toContain(code)
    expect(ran.stderr).toContain('req_1')
  })

  it('is exit 13 when nothing listens, and the failure is one JSON object for programs', async () => {
    await peer.close()
    const env = { HOME: home, PANEL_URL: peer.url, PANEL_TOKEN: PEER_TOKEN }
    const ran = await runPanel(['servers', 'list', '-o', 'json'], { env })
    peer = await startPanelPeer()
    expect({ code: ran.code, stdout: ran.stdout }).toEqual({ code: 13, stdout: '' })
    expect(JSON.parse(ran.stderr)).toMatchObject({ error: { code: 'UNREACHABLE' } })
  })

  it('is exit 4 without a credential and 6 for an unknown name', async () => {
    const anonymous = await run(['servers', 'list'], { env: { PANEL_TOKEN: '' } })
    const unknown = await run(['servers', 'view', 'nothing-like-it'])
    expect([anonymous.code, unknown.code]).toEqual([4, 6])
  })

  it('repeats a read after a 503 and gives up the write that has no key', async () => {
    peer.refuse('/api/servers', { status: 503, code: 'SHUTTING_DOWN', times: 2 })
    const ran = await run(['servers', 'list', '-o', 'name'])
    expect(ran).toMatchObject({ code: 0, stdout: 'demo\n' })
    expect(peer.received.filter(({ path }) => path === '/api/servers')).toHaveLength(3)
  })

  it('refuses a credentials file that others can read', async () => {
    const env = { PANEL_URL: '', PANEL_TOKEN: '' }
    expect((await run(['context', 'create', 'a', '--url', peer.url], { env })).code).toBe(0)
    const file = join(home, '.config/panel/credentials.yaml')
    await writeFile(file, 'a: { token: x }\n')
    await chmod(file, 0o644)
    const ran = await run(['servers', 'list'], { env })
    expect(ran.code).toBe(2)
    expect(ran.stderr).toContain(`chmod 600 ${file}`)
    expect((await stat(join(home, '.config/panel/cli.yaml'))).mode & 0o077).toBe(0)
  })
})

describe('output', () => {
  it('writes the API data as JSON, chosen fields, CSV, names and ids', async () => {
    const json = JSON.parse((await run(['servers', 'list', '-o', 'json'])).stdout)
    expect(json).toMatchObject([{ name: 'demo', status: 'stopped' }])
    const chosen = await run(['--json', 'name,node.name', 'servers', 'list'])
    expect(JSON.parse(chosen.stdout)).toEqual([{ name: 'demo', 'node.name': 'node-a' }])
    expect((await run(['servers', 'list', '-o', 'csv', '--columns', 'name,status'])).stdout).toBe(
      'name,status\r\ndemo,stopped\r\n',
    )
    expect((await run(['servers', 'view', 'demo', '-o', 'id'])).stdout).toBe(`${json[0].id}\n`)
  })

  it('ends quietly when its reader leaves', async () => {
    peer.print(...Array.from({ length: 5000 }, (_, i) => `line ${i}`))
    const script = `"${process.execPath}" "${DIST}/bin/panel.js" console logs demo --tail 5000 | head -1; echo "\${PIPESTATUS[0]}"`
    const env = { PATH: process.env['PATH'] ?? '', HOME: home, PANEL_URL: peer.url, PANEL_TOKEN: PEER_TOKEN }
    const child = spawn('bash', ['-c', script], { env })
    const [out, err] = await Promise.all([read(child.stdout), read(child.stderr)])
    expect({ out, err }).toEqual({ out: 'line 0\n0\n', err: '' })
  })
})

describe('power', () => {
  it('waits for a restart to run anew and answers one JSON object', async () => {
    await setUp('running')
    peer.script(['stopping', 'stopped', 'starting', 'running'])
    const ran = await run(['servers', 'power', 'restart', 'demo', '--wait', '-o', 'json'])
    expect(ran.code).toBe(0)
    expect(JSON.parse(ran.stdout)).toMatchObject({
      server: 'demo',
      action: 'restart',
      status: 'running',
      generation: 2,
      commandId: 'cmd_2',
    })
    expect(peer.received.find(({ path }) => path.endsWith('/power'))?.key).toBeTruthy()
  })

  it('is exit 11 when the server crashes and when the agent refuses', async () => {
    peer.script(['starting', 'crashed'])
    expect((await run(['servers', 'start', 'demo', '--wait'])).code).toBe(11)
    peer.script([], { ok: false, error: 'the port is taken' })
    const refused = await run(['servers', 'start', 'demo', '--wait'])
    expect(refused.code).toBe(11)
    expect(refused.stderr).toContain('the port is taken')
  })

  it('is exit 124 when the time passes, and 0 for a server that is there already', async () => {
    peer.script(['starting'])
    const late = await run(['servers', 'start', 'demo', '--timeout', '300ms'])
    expect(late.code).toBe(124)
    await setUp('stopped')
    const there = await run(['servers', 'stop', 'demo', '--wait'])
    expect(there.code).toBe(0)
    expect(there.stderr).toContain('stopped already')
  })

  it('is exit 12 when the node is offline', async () => {
    const { id } = JSON.parse((await run(['servers', 'view', 'demo', '-o', 'json'])).stdout)
    peer.refuse(`/api/servers/${id}/power`, { status: 503, code: 'NODE_OFFLINE' })
    expect((await run(['servers', 'start', 'demo', '--no-wait'])).code).toBe(12)
  })

  it('asks for the name before it deletes, and without a terminal names the flag', async () => {
    const ran = await run(['servers', 'delete', 'demo'])
    expect(ran.code).toBe(2)
    expect(ran.stderr).toContain("--confirm 'demo'")
    expect(peer.received.every(({ method }) => method === 'GET')).toBe(true)
  })
})

describe('the raw call and completion', () => {
  it('prints the envelope, or the data alone, and follows the code of an error', async () => {
    const whole = await run(['api', '/api/servers'])
    expect(JSON.parse(whole.stdout)).toMatchObject({ success: true, pagination: { total: 1 } })
    const rows = await run(['api', 'servers', '--paginate'])
    expect(JSON.parse(rows.stdout)).toMatchObject([{ name: 'demo' }])
    const posted = await run(['api', 'servers', '--field', 'n=1', '--field', 'on=true', '--raw-field', 's=2'])
    expect(posted.code).toBe(0)
    expect(peer.received.at(-1)).toMatchObject({ method: 'POST', body: { n: 1, on: true, s: '2' } })
    expect((await run(['api', '/api/nothing'])).code).toBe(6)
  })

  it('completes commands, flags and live names, and is silent when the panel is away', async () => {
    const at = async (...words: string[]) => {
      const { code, stdout, stderr } = await run(['__complete', '--', ...words])
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      return stdout.split('\n').map((line) => line.split('\t')[0])
    }
    expect(await at('serv')).toContain('servers')
    expect(await at('servers', 'power', 're')).toEqual(['restart', ''])
    expect(await at('servers', 'list', '--st')).toContain('--state')
    // A busy machine may miss the half second that a shell waits; it asks again then.
    await expect.poll(() => at('servers', 'view', 'de'), { timeout: 20_000 }).toEqual(['demo', ''])
    await peer.close()
    expect(await at('servers', 'view', 'x')).toEqual([''])
    peer = await startPanelPeer()
  })
})

describe('signing in', () => {
  const env = { PANEL_URL: '', PANEL_TOKEN: '' }

  it('keeps a key from stdin, shows who is signed in, and revokes it at logout', async () => {
    const login = await run(['login', peer.url, '--token-stdin', '--name', 'here'], { env, input: `${PEER_TOKEN}\n` })
    expect({ code: login.code, stdout: login.stdout }).toEqual({ code: 0, stdout: '' })
    const file = join(home, '.config/panel/credentials.yaml')
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(JSON.parse((await run(['context', 'list', '-o', 'json'], { env })).stdout)).toEqual([
      {
        ...{ name: 'here', url: peer.url, current: true, caFile: null },
        ...{ socket: null, listenerUid: process.getuid?.(), insecureHttp: false },
      },
    ])
    expect((await run(['whoami', '-o', 'name'], { env })).stdout).toBe('eve\n')
    expect((await run(['auth', 'can-i', 'server.read'], { env })).stdout).toBe('yes\n')
    expect((await run(['auth', 'can-i', 'user.create'], { env })).code).toBe(5)
    expect((await run(['auth', 'token'], { env })).stdout).toBe(`${PEER_TOKEN}\n`)
    expect((await run(['logout'], { env })).code).toBe(0)
    expect(peer.received.at(-1)?.path).toBe('/api/auth/logout')
    expect((await run(['whoami'], { env })).code).toBe(4)
  })

  it('makes a key of its own from a password, and never prints either', async () => {
    const args = ['login', peer.url, '--username', 'eve', '--password-stdin', '--debug']
    const login = await run(args, { env, input: 'correct horse\n' })
    expect(login.code).toBe(0)
    expect(login.stdout + login.stderr).not.toMatch(/correct horse|secret/)
    expect(peer.received.find(({ path }) => path === '/api/admin/api-keys')?.body).toMatchObject({
      expiresIn: 2_592_000,
    })
    expect((await run(['whoami', '-o', 'name'], { env })).stdout).toBe('eve\n')
  })

  it('never sends the token of one panel to another', async () => {
    await run(['login', peer.url, '--token-stdin'], { env, input: `${PEER_TOKEN}\n` })
    const ran = await run(['servers', 'list', '--url', 'http://127.0.0.1:9'], { env })
    expect(ran.code).toBe(4)
  })
})

describe('signals', () => {
  it('stops waiting at SIGINT with exit 130 and says that the order continues', async () => {
    await setUp('running')
    peer.script(['stopping'])
    const ran = await run(['servers', 'stop', 'demo', '--wait', '-o', 'json', '--debug'], {
      // The order is accepted and its outcome is being watched.
      onError: (text) => (/< 202[\s\S]*> GET/.test(text) ? 'SIGINT' : undefined),
    })
    expect(ran.code).toBe(130)
    expect(ran.stderr).toContain('the order continues')
  })
})

describe('console', () => {
  it('goes on exactly where the cursor file says, over cuts and runs', async () => {
    const cursor = join(home, 'cursor')
    peer.print('one', 'two')
    const follow = ['console', 'logs', 'demo', '-f', '--cursor-file', cursor, '-q']
    let cut = false
    const first = await run(follow, {
      onOutput: (out) => {
        if (!cut && out.includes('two')) {
          cut = true
          peer.cut()
          peer.print('three')
        }
        return out.includes('three') ? 'SIGTERM' : undefined
      },
    })
    expect(first).toMatchObject({ code: 143, stdout: 'one\ntwo\nthree\n' })
    expect(await readFile(cursor, 'utf8')).toBe('e1-3\n')
    peer.print('four')
    const second = await run(['console', 'logs', 'demo', '--cursor-file', cursor])
    expect(second.stdout).toBe('four\n')
  })

  it('expects an answer to what it sends; 124 when none comes', async () => {
    const found = await run(['console', 'expect', 'demo', 'answer to (\\w+)', '--send', 'list', '--timeout', '10s'])
    expect(found).toMatchObject({ code: 0, stdout: 'answer to list\n' })
    const late = await run(['console', 'expect', 'demo', 'never', '--timeout', '300ms'])
    expect(late.code).toBe(124)
  })

  it('finds nothing with exit 15', async () => {
    peer.print('one')
    expect((await run(['console', 'history', 'demo', '--grep', 'absent'])).code).toBe(15)
  })

  it('sends lines of stdin and shows the answers in line mode', async () => {
    const ran = await run(['console', 'attach', 'demo', '--no-tui', '--tail', '0'], { input: 'hello\n' })
    expect(ran.code).toBe(0)
    expect(ran.stdout).toMatch(/^\[\d\d:\d\d:\d\d\] answer to hello\n$/)
    expect(ran.stderr).toContain('--after-cursor e1-1')
  })
})

async function read(stream: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const part of stream) text += String(part)
  return text
}
