import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { createServer as createGameServer, getServer } from '../../src/shared/api/servers.ts'
import { createTemplate } from '../../src/shared/api/templates.ts'
import { createClient } from '../../src/shared/client.ts'
import { PEER_TOKEN } from '../cli/panel-peer.ts'
import { until } from '../e2e/wait.ts'
import { readSource, sourceFiles, withoutComments } from '../module-graph.ts'
import { quietPort } from '../ports.ts'
import { DIST, runPanel, SFTP_HERE } from '../run-panel.ts'

// What games, install scripts, nodes and panels say reaches a person's terminal as text, whatever it is made of.

const HOSTILE =
  '\u001b]0;title\u0007\u001b[2J\u001b[6n\u001b]52;c;aGk=\u0007\u009b31m\u202eevil\u0000\u2028\r\u001b[8mhidden'
const VALUE = { name: HOSTILE, [HOSTILE]: [HOSTILE, `several\nlines ${HOSTILE}`], n: 1 }
/** A second spelling of what no terminal may get; tmux and script themselves add \r\n. */
const CONTROL =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]|\r(?![\r\n])/

const run = promisify(execFile)

describe('a panel that answers hostile texts', () => {
  let server: Server
  let home: string
  let env: Record<string, string>

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'panel-hostile-'))
    server = createServer((request, response) => {
      const path = request.url ?? ''
      if (path.includes('export')) {
        response.writeHead(200, { 'content-type': 'text/csv', 'content-disposition': 'attachment; filename="a.csv"' })
        response.end(`id,name\r\n1,${HOSTILE}\r\n`)
        return
      }
      const text = path.includes('text')
      response.writeHead(path.includes('refused') ? 409 : 200, {
        'content-type': text ? 'text/plain' : 'application/json',
      })
      if (text) response.end(HOSTILE)
      else if (path.includes('refused'))
        response.end(JSON.stringify({ success: false, error: HOSTILE, code: 'CONFLICT', requestId: HOSTILE }))
      else response.end(JSON.stringify({ success: true, data: VALUE }))
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo // a TCP listener has one
    env = { HOME: home, PANEL_URL: `http://127.0.0.1:${port}`, PANEL_TOKEN: PEER_TOKEN, NO_COLOR: '1' }
  })
  afterAll(async () => {
    server.close()
    server.closeAllConnections()
    await rm(home, { recursive: true, force: true })
  })

  /** What a terminal gets of a command, stderr included. */
  async function onTerminal(...args: string[]): Promise<string> {
    const words = [process.execPath, join(DIST, 'bin', 'panel.js'), ...args].map((word) => `'${word}'`).join(' ')
    const { stdout } = await run('script', ['-qec', words, '/dev/null'], {
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', ...env },
    }).catch((error: { stdout: string }) => error) // script passes the exit code on
    return stdout
  }

  it.each([
    ['--jq', ['api', '/api/x', '--unwrap', '--jq', '.name']],
    ['JSON', ['api', '/api/x', '--unwrap', '-o', 'json']],
    ['JSON lines', ['api', '/api/x', '--unwrap', '-o', 'jsonl']],
    ['YAML', ['api', '/api/x', '--unwrap', '-o', 'yaml']],
    ['text', ['api', '/api/text']],
    ['a refusal', ['api', '/api/refused']],
    ['a refusal as JSON', ['api', '/api/refused', '-o', 'json']],
    ['a file', ['audit', 'export']],
    ['a debugged request', ['api', '/api/x', '--unwrap', '--jq', '.n', '--debug']],
  ])('is shown without a control character: %s', async (_, args) => {
    const shown = await onTerminal(...args)
    expect(shown).not.toBe('')
    expect(shown).not.toMatch(CONTROL)
  })

  it('loses nothing in JSON and YAML, on a terminal and in a pipe', async () => {
    const clean = (text: string): string => text.replace(/\r+\n/g, '\n')
    expect(JSON.parse(clean(await onTerminal('api', '/api/x', '--unwrap', '-o', 'json')))).toEqual(VALUE)
    expect(parse(clean(await onTerminal('api', '/api/x', '--unwrap', '-o', 'yaml')))).toEqual(VALUE)
    const readers: readonly (readonly [string, (text: string) => unknown])[] = [
      ['json', (text) => JSON.parse(text)],
      ['yaml', (text) => parse(text)],
    ]
    for (const [format, read] of readers) {
      const { stdout } = await runPanel(['api', '/api/x', '--unwrap', '-o', format], { env })
      expect(read(stdout)).toEqual(VALUE)
      expect(stdout).not.toMatch(CONTROL)
    }
  })

  it('is passed on as it is to a program that reads texts by --jq', async () => {
    const { stdout } = await runPanel(['api', '/api/x', '--unwrap', '--jq', '.name'], { env })
    expect(stdout).toBe(`${HOSTILE}\n`)
  })

  it('is no way around by a configuration that is wrong', async () => {
    const wrong = { HOME: home, PANEL_HTTP__LISTEN: HOSTILE.replaceAll('\u0000', ''), PANEL_DAEMON__URL: '\u001b[2Jx' }
    for (const args of [['daemon', 'run'], ['agent', 'run'], ['up']]) {
      const { code, stdout, stderr } = await runPanel(args, { env: wrong })
      expect(code).not.toBe(0)
      expect(stdout + stderr).not.toMatch(CONTROL)
    }
  })
})

describe('an install script that fails with escape sequences', () => {
  let home: string
  const children: ChildProcess[] = []
  const env = () => ({ PATH: process.env['PATH'] ?? '', HOME: home, TERM: 'xterm', ...SFTP_HERE })

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'panel-hostile-up-'))
  })
  afterAll(async () => {
    await run(process.execPath, [join(DIST, 'bin', 'panel.js'), 'down', '--servers'], { env: env() })
    for (const child of children) if (child.exitCode === null && child.signalCode === null) child.kill('SIGKILL')
    await rm(home, { recursive: true, force: true })
  })

  async function up(listen: string): Promise<{ child: ChildProcess; screen: string }> {
    const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), 'up', '--listen', listen], { env: env() })
    children.push(child)
    let screen = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      screen += chunk.toString()
    })
    await until('the screen', async () => screen.includes('Ctrl-C'), 60_000)
    return { child, screen }
  }

  it('puts none of them on the first screen of panel up', { tags: ['long'], timeout: 120_000 }, async () => {
    const listen = `127.0.0.1:${await quietPort()}`
    const first = await up(listen)
    const token = (await readFile(join(home, '.local/share/panel/local.key'), 'utf8')).trim()
    const client = createClient({ baseUrl: `http://${listen}`, token, fetch })
    const installScript = `printf 'reason \\033]0;owned\\007\\033[2J\\033[6n\\302\\2331m\\342\\200\\256evil' >&2; exit 1`
    const { id: templateId } = await client.call(createTemplate, {
      body: { name: 'Evil', startup: 'x', installScript },
    })
    const nodes = await (
      await fetch(`http://${listen}/api/nodes`, { headers: { authorization: `Bearer ${token}` } })
    ).json()
    const { id: nodeId, locationId } = Object(nodes).data[0]
    const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.1, allocatedDiskMb: 64, primaryPort: await quietPort() }
    const { id: serverId } = await client.call(createGameServer, {
      body: { name: 'evil', templateId, nodeId, locationId, ...sizes, start: true },
    })
    const seen = await until('the failure', async () => {
      const { reason } = await client.call(getServer, { params: { serverId } })
      return reason !== null && reason
    })
    expect(seen).not.toMatch(CONTROL)
    first.child.kill('SIGINT')
    await once(first.child, 'exit')
    const { screen } = await up(listen)
    expect(screen).toMatch(/evil .*\(.*evil.*\)/)
    expect(screen).not.toMatch(CONTROL)
  })
})

describe('the program writes to a terminal', () => {
  /** Each has its reason: whatever else writes goes through one of them. */
  const WRITERS = [
    // The stderr of a channel of SSH.
    'src/agent/sftp/ssh-server.ts',
    'src/cli/kit/terminal.ts',
    // Help that was made with the program, before the stream of stdout is loaded.
    'src/cli/main.ts',
    // A tool of the build.
    'src/cli/man.ts',
    'src/daemon/core/notices.ts',
    // Its stderr is a pipe to the daemon.
    'src/plugin-host/activate.ts',
    // Of those who escape: the logs, and the notices of daemon and agent.
    'src/shared/platform/log-output.ts',
  ]

  it('in named places alone, which escape', () => {
    const writes =
      /\b(?:stdout|stderr)(?:\(\))?\s*\.\s*write\b|(?<![\w.])console\s*\.\s*(?:log|error|warn|info|debug|dir|table|trace|group)\(|\bwriteSync\(\s*(?:[12]|STDOUT|STDERR)\b/
    const found = [...sourceFiles('bin'), ...sourceFiles('src')].filter((file) =>
      writes.test(withoutComments(readSource(file))),
    )
    // The screen has a terminal of its own, which it gives back; what it paints is read by tui/ansi.ts.
    expect(found.filter((file) => !file.startsWith('src/cli/tui/'))).toEqual(WRITERS)
    expect(found.filter((file) => file.startsWith('src/cli/tui/'))).toEqual([
      'src/cli/tui/app.ts',
      'src/cli/tui/terminal/terminal.ts',
    ])
    for (const planted of [
      'process.stdout.write(x)',
      'stderr.write(`a`)',
      'console.log(1)',
      'writeSync(1, rest)',
      'writeSync(STDERR, rest)',
    ]) {
      expect(writes.test(planted), planted).toBe(true)
    }
  })
})
