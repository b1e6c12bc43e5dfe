// @module-tag long
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { readContexts } from '../../src/cli/kit/profile/contexts.ts'
import { untrustedOf } from '../../src/shared/platform/listener.ts'
import { usersOfFarEnd } from '../../src/shared/platform/listener-table.ts'
import { runHere } from '../cli/run-here.ts'
import { openPane } from '../cli/tui/pane.ts'
import { quietPort } from '../ports.ts'
import { DIST, type Ran, runPanel } from '../run-panel.ts'
import { Squatter, STRANGER } from './squatter.ts'

const KEY = 'pak_01k000000000000000000000aa_secretsecret'
const isRoot = process.getuid?.() === 0

let home: string
const squatters: Squatter[] = []

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-squat-'))
})
afterAll(() => rm(home, { recursive: true, force: true }))
afterEach(async () => {
  for (const squatter of squatters.splice(0)) await squatter.leave()
  await rm(join(home, '.config'), { recursive: true, force: true })
})

async function squat(
  places: readonly string[],
  options: Parameters<typeof Squatter.settle>[1] = {},
): Promise<Squatter> {
  const squatter = await Squatter.settle(places, options)
  squatters.push(squatter)
  return squatter
}

const env = (more: Record<string, string> = {}) => ({ HOME: home, PANEL_TOKEN: KEY, ...more })
const refusal = {
  code: 13,
  stdout: '',
  stderr: expect.stringMatching(/served by a program of .*uid 65534.*nothing was sent/),
}

// Another user's program cannot be started without root.
describe.skipIf(!isRoot)('a program of another user that listens where the panel did (skipped unless root)', () => {
  it.each([
    ['a list', ['servers', 'list']],
    ['the console', ['console', 'logs', 'srv_01k000000000000000000000aa', '--follow']],
    ['an event stream', ['api', '/api/admin/events', '--stream']],
    ['an event stream of a noun', ['events', 'tail']],
    ['a download', ['audit', 'export']],
    ['an order', ['servers', 'power', 'start', 'srv_01k000000000000000000000aa']],
    ['a raw write', ['api', '/api/servers', '--field', 'name=x']],
    ['a sign-in by key', ['login', '--token-stdin']],
    ['a sign-in by password', ['login', '--username', 'eve', '--password-stdin']],
    ['the set-up', ['setup', '--admin-email', 'a@example.org', '--admin-username', 'a', '--password-stdin']],
    ['a registration', ['auth', 'register', '--email', 'a@example.org', '--username', 'a', '--password-stdin']],
    ['a sign-out', ['logout']],
    ['unverified TLS', ['whoami', '--insecure-skip-tls-verify']],
    ['a stream over unverified TLS', ['api', '/api/admin/events', '--stream', '--insecure-skip-tls-verify']],
  ])('gets not one byte of %s', async (_, args) => {
    const port = await quietPort()
    const squatter = await squat([`127.0.0.1:${port}`], { manner: 'answer' })
    const scheme = args.includes('--insecure-skip-tls-verify') ? 'https' : 'http'
    const url = `${scheme}://127.0.0.1:${port}`
    const ran = await runHere([...args, '--url', url], { env: env({ PANEL_SETUP_TOKEN: 'setup' }), input: `${KEY}\n` })
    expect(ran).toMatchObject(refusal)
    expect(ran.stderr).toContain('--listener-uid 65534')
    expect(await squatter.loot()).toEqual([])
  })

  it('gets nothing at any address of this machine, nor when it speaks first', async () => {
    const [port, first] = [await quietPort(), await quietPort()]
    const six = await canListen('::1')
    const squatter = await squat([six ? `:::${port}` : `0.0.0.0:${port}`, `127.0.0.1:${first}`], { manner: 'greet' })
    const hosts = ['127.0.0.1', '127.9.9.9', 'localhost', '0.0.0.0', ...(six ? ['[::1]', '[::ffff:127.0.0.1]'] : [])]
    for (const host of [...hosts.map((name) => `${name}:${port}`), `127.0.0.1:${first}`]) {
      expect(await runHere(['servers', 'list', '--url', `http://${host}`], { env: env() }), host).toMatchObject(refusal)
    }
    expect(await squatter.loot(hosts.length + 1)).toEqual([])
  })

  it('gets nothing when it has taken the connection and left the port to the panel', async () => {
    const port = await quietPort()
    const squatter = await squat([`127.0.0.1:${port}`], { manner: 'accept-and-leave' })
    // As the panel would, which has waited for the port.
    const panel = createServer()
    const taken = new Promise<void>((resolve) => {
      const listen = (): void => void panel.listen(port, '127.0.0.1')
      panel.on('error', () => setTimeout(listen, 1)).on('listening', resolve)
      listen()
    })
    const visitor = connect(port, '127.0.0.1')
    try {
      await Promise.all([once(visitor, 'connect'), taken])
      const near = { address: '127.0.0.1', port: visitor.localPort ?? 0 }
      const uids = usersOfFarEnd({ near, far: { address: '127.0.0.1', port } })
      expect([...uids].sort()).toEqual([0, STRANGER])
      expect(untrustedOf(uids, undefined)).toEqual([STRANGER])
      visitor.destroy()
      expect(await squatter.loot()).toEqual([])
    } finally {
      visitor.destroy()
      panel.close()
    }
  })

  it('is accepted by --listener-uid alone, which a sign-in keeps for that user and no other', async () => {
    const port = await quietPort()
    const url = `http://127.0.0.1:${port}`
    const panel = await squat([`127.0.0.1:${port}`], { manner: 'answer' })
    const as = (args: readonly string[]) => runHere(args, { env: { HOME: home }, input: `${KEY}\n` })
    // The answer of this one is a refusal, but it was asked.
    const asked = await as(['login', url, '--token-stdin', '--listener-uid', String(STRANGER)])
    expect(asked).toMatchObject({ code: 5 })
    expect(panel.sent.join('')).toContain(KEY)
    const made = await as(['context', 'create', 'games', '--url', url, '--use', '--listener-uid', String(STRANGER)])
    expect(made).toMatchObject({ code: 0 })
    expect(await readContexts(join(home, '.config/panel'))).toMatchObject({ contexts: [{ listenerUid: STRANGER }] })
    await writeFile(join(home, '.config/panel/credentials.yaml'), `games:\n  token: ${KEY}\n`, { mode: 0o600 })
    expect(await as(['servers', 'list'])).toMatchObject({ code: 5 })
    await panel.leave()
    const other = await squat([`127.0.0.1:${port}`], { uid: STRANGER - 1 })
    expect(await as(['servers', 'list'])).toMatchObject({ code: 13, stderr: expect.stringContaining('uid 65533') })
    expect(await other.loot()).toEqual([])
  })

  it('gets nothing before, while and after the panel stands, which goes on elsewhere', {
    timeout: 180_000,
  }, async () => {
    const [port, other] = [await quietPort(), await quietPort()]
    const panel = (...args: string[]) => runPanel(args, { env: { HOME: home } })
    const up = async (listen: number) => {
      let ended: Promise<Ran> | undefined
      await new Promise<void>((resolve, reject) => {
        const onOutput = (text: string): undefined => {
          if (text.includes('Ctrl-C')) resolve()
        }
        ended = runPanel(['up', '--listen', `127.0.0.1:${listen}`], { env: { HOME: home }, onOutput })
        ended.then(({ stderr }) => reject(new Error(`ended: ${stderr}`)), reject)
      })
      return { ended }
    }
    try {
      const first = await up(port)
      // It waits from now on, as a game does that outlives the panel.
      const squatter = await squat([`127.0.0.1:${port}`], { manner: 'answer', wait: false })
      expect(await panel('servers', 'list')).toMatchObject({ code: 0 })
      expect(await panel('down')).toMatchObject({ code: 0 })
      expect((await first.ended)?.stdout).toContain('one game runs on. "panel up" takes it up again.')
      await squatter.listens(1)
      const url = `http://127.0.0.1:${port}`
      for (const args of [['servers', 'list'], ['servers', 'list', '--url', url], ['logout']]) {
        expect((await panel(...args)).code).toBe(args[0] === 'logout' ? 0 : 13)
      }
      expect(await panel('up', '--listen', `127.0.0.1:${port}`)).toMatchObject({ code: 14 })
      const second = await up(other)
      expect(await panel('servers', 'list')).toMatchObject({ code: 0 })
      // Who has signed out is signed in again by a second `panel up`, without a new key.
      expect(await panel('logout')).toMatchObject({
        code: 0,
        stderr: expect.stringContaining('"panel up" signs you in'),
      })
      expect(await panel('servers', 'list')).toMatchObject({
        code: 4,
        stderr: expect.stringContaining('try: panel up'),
      })
      expect(await panel('up')).toMatchObject({ code: 0 })
      expect(await panel('servers', 'list')).toMatchObject({ code: 0 })
      expect(squatter.sent).toEqual([])
      expect(squatter.visits).toBe(0)
      expect(await panel('down', '--servers')).toMatchObject({ code: 0 })
      expect((await second.ended)?.stdout).toContain('panel has stopped; no game runs.')
    } finally {
      await panel('down', '--servers')
    }
  })

  it('is asked about at a terminal, and gets nothing after a no', async () => {
    const port = await quietPort()
    const squatter = await squat([`127.0.0.1:${port}`], { manner: 'answer' })
    const pane = await openPane(200, 20, { HOME: home })
    try {
      const program = join(DIST, 'bin', 'panel.js')
      await pane.text(`${process.execPath} ${program} login http://127.0.0.1:${port} --username eve`)
      await pane.keys('Enter')
      await pane.shows('nobody (uid 65534)')
      await pane.shows('Trust it with your credentials?')
      await pane.text('n')
      await pane.keys('Enter')
      await pane.shows('cancelled')
      expect(await squatter.loot()).toEqual([])
    } finally {
      await pane.close()
    }
  })

  it('gets neither the enrolment token nor the key of a node', async () => {
    const port = await quietPort()
    const url = `http://127.0.0.1:${port}`
    const squatter = await squat([`127.0.0.1:${port}`], { manner: 'answer' })
    const dataDir = join(home, 'agent')
    const enroll = ['agent', 'enroll', '--url', url, '--token-stdin', '--data-dir', dataDir]
    const enrolled = await runPanel(enroll, { env: { HOME: home }, input: `${KEY}\n` })
    expect(enrolled).toMatchObject({ ...refusal, signal: null })
    expect(enrolled.stderr).toContain('--listener-uid 65534')
    const node = { url, nodeId: 'node_1', nodeName: 'box', nodeKey: KEY }
    await writeFile(join(dataDir, 'node.json'), JSON.stringify(node), { mode: 0o600 })
    const ran = await runPanel(['agent', 'run', '--data-dir', dataDir], {
      env: { HOME: home },
      onOutput: (text) => (/served by a program of nobody/.test(text) ? 'SIGTERM' : undefined),
    })
    expect(ran.stdout).toContain('nothing was sent')
    expect(await squatter.loot(2)).toEqual([])
  })
})

describe('plain http to another machine', () => {
  it.each([
    ['http://192.0.2.7:7420'],
    ['http://panel.example.org'],
    ['http://127.0.0.1.example.org:7420'],
    ['http://[2001:db8::1]:7420'],
  ])('is refused before anything is sent: %s', async (url) => {
    for (const args of [
      ['servers', 'list'],
      ['login', '--token-stdin'],
      ['api', '/x', '--stream'],
    ]) {
      const ran = await runHere([...args, '--url', url], { env: env(), input: KEY })
      expect(ran).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('--insecure-http') })
    }
  })
})

/** Whether this machine has the address. */
function canListen(host: string): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(0, host, () => server.close(() => resolve(true)))
  })
}
