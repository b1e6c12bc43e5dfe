import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Server } from '../../src/shared/api/servers.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { DIST, runPanel } from '../run-panel.ts'

const STEADY = 'echo ready; while read -r line; do echo "hi $line"; done'
const FAILING = 'echo broken; exit 3'
const PASSWORD = 'Correct horse 9 battery!'

let panel: SplitPanel
let game: Server

beforeAll(async () => {
  panel = await SplitPanel.enter()
  const template = await panel.makeTemplate('steady', STEADY)
  game = await panel.makeServer('game', template, { start: true })
  await panel.makeServer('rest', template)
  await panel.makeServer('broken', await panel.makeTemplate('failing', FAILING))
})

afterAll(async () => {
  await panel.leave()
})

/** The exit code and the code of the failure as programs read it. */
async function outcome(args: readonly string[], options?: Parameters<SplitPanel['run']>[1]) {
  const { code, stderr } = await panel.run([...args, '-o', 'json'], options)
  // Notices may stand before it.
  const last = stderr.trim().split('\n').at(-1) ?? ''
  const error = last.startsWith('{') ? JSON.parse(last).error : { code: undefined, message: stderr }
  return { exit: code, code: error.code, message: String(error.message), hint: error.hint }
}

describe('the exit codes of the real binary against a real daemon', () => {
  it.each<[number, string | undefined, string[]]>([
    [0, undefined, ['servers', 'view', 'game']],
    [2, 'USAGE', ['servers', 'wait', 'game', '--for', 'sunshine']],
    [2, 'CONFIRMATION_REQUIRED', ['servers', 'delete', 'game']],
    [6, 'NOT_FOUND', ['servers', 'view', 'nobody']],
    [7, 'SERVER_INVALID_STATE', ['servers', 'install', 'game']],
    [8, 'VALIDATION_ERROR', ['servers', 'edit', 'game', '--name', '<>']],
    [11, 'OPERATION_FAILED', ['servers', 'start', 'broken', '--wait', '--timeout', '30s']],
    [15, undefined, ['console', 'history', 'game', '--grep', 'nothing of the kind']],
    [124, 'TIMEOUT', ['servers', 'wait', 'game', '--for', 'state=stopped', '--timeout', '1s']],
  ])('%i %s: %j', async (exit, code, args) => {
    const found = await outcome(args)
    expect(found, found.message).toMatchObject({ exit, code })
  })

  it('2: a file whose alias names what it stands in is refused by its name', async () => {
    const found = await outcome(['templates', 'create', '-F', '-'], { input: 'name: a\nfeatures: &a { more: *a }\n' })
    expect(found).toMatchObject({ exit: 2, code: 'FILE_UNREADABLE', message: '- has an alias inside of what it names' })
  })

  it('3: one of two orders was refused, and the other is carried out', async () => {
    const ran = await panel.run(['servers', 'install', 'game', 'rest', '--wait'])
    expect(ran, ran.stderr).toMatchObject({ code: 3 })
    expect(ran.stderr).toContain('game:')
    expect(ran.stdout).toContain('rest')
  })

  it('4 and 5: no credential, a wrong one, and one that may not', async () => {
    expect((await outcome(['servers', 'list'], { env: { PANEL_TOKEN: '' } })).exit).toBe(4)
    expect((await outcome(['servers', 'list'], { env: { PANEL_TOKEN: `pnl_${'0'.repeat(40)}` } })).exit).toBe(4)
    const made = await panel.run(['api-keys', 'create', '--name', 'few', '--permission', 'location.read'])
    const env = { PANEL_TOKEN: made.stdout.trim() }
    expect(await outcome(['users', 'list'], { env })).toMatchObject({ exit: 5, code: 'PERMISSION_DENIED' })
  })

  it('9: after too many wrong passwords even the right one has to wait, and it says how long', {
    tags: ['long'],
  }, async () => {
    const request = ['users', 'create', '--email', 'eve@example.org', '--username', 'eve', '--password-stdin']
    expect(await panel.run(request, { input: PASSWORD })).toMatchObject({ code: 0 })
    const login = ['login', panel.url, '--username', 'eve', '--password-stdin']
    const anonymous = { PANEL_TOKEN: '' }
    await until('the account is locked', async () => {
      const { code } = await panel.run(login, { env: anonymous, input: 'wrong' })
      expect([4, 9]).toContain(code)
      return code === 9
    })
    const locked = await outcome(login, { env: anonymous, input: PASSWORD })
    expect(locked).toMatchObject({ exit: 9, hint: expect.stringMatching(/again in \d+ s/) })
  })

  it('14: a data folder that another daemon or agent works on, and a machine that is not enrolled', {
    tags: ['long'],
  }, async () => {
    const daemon = await panel.run([
      'daemon',
      'run',
      '--listen',
      '127.0.0.1:0',
      '--data-dir',
      join(panel.home, 'daemon'),
    ])
    expect(daemon).toMatchObject({ code: 14, stderr: expect.stringContaining('Another daemon') })
    const agent = await panel.run(['agent', 'run', '--data-dir', join(panel.home, 'agent')])
    expect(agent).toMatchObject({ code: 14, stderr: expect.stringContaining('Another agent') })
    const stranger = await panel.run(['agent', 'run', '--data-dir', join(panel.home, 'nowhere')])
    expect(stranger).toMatchObject({ code: 14, stderr: expect.stringContaining('not enrolled') })
  })

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('ends by %s with %i', async (signal, exit) => {
    const env = { HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.token }
    const onOutput = (stdout: string) => (stdout.includes('ready') ? signal : undefined)
    expect(await runPanel(['console', 'logs', 'game', '-f'], { env, onOutput })).toMatchObject({
      code: exit,
      stderr: '',
    })
    expect((await panel.server(game.id)).status).toBe('running')
  })

  it('ends without a word when its reader has gone', async () => {
    const env = { PATH: process.env['PATH'] ?? '', HOME: panel.home, PANEL_URL: panel.url, PANEL_TOKEN: panel.token }
    const line = `'${process.execPath}' '${join(DIST, 'bin', 'panel.js')}' permissions list | head -1`
    const child = spawn('sh', ['-c', line], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    await once(child, 'close')
    expect(stdout.split('\n')).toHaveLength(2)
    expect(stderr).toBe('')
  })

  it('12 while the node is away, 13 while the daemon is', async () => {
    await panel.killAgent()
    await until('the node is offline', async () => {
      const { exit } = await outcome(['servers', 'start', 'rest'])
      return exit === 12
    })
    await panel.killDaemon()
    expect(await outcome(['servers', 'list'])).toMatchObject({ exit: 13, code: 'UNREACHABLE' })
  })
})
