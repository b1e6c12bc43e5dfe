import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, mkdtemp, rm, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openPane } from '../cli/tui/pane.ts'
import { queryDemo } from '../games/probe.ts'
import { quietPort } from '../ports.ts'
import { DIST, type Ran, SFTP_HERE } from '../run-panel.ts'
import { gone, isAlive, until, userOf } from './wait.ts'

const NOBODY = 65_534
const PANEL = [process.execPath, join(DIST, 'bin', 'panel.js')]

/** A person at a machine: a HOME of its own, and commands under that account. */
class Person {
  readonly home: string
  readonly #prefix: readonly string[]
  readonly #children: ChildProcess[] = []

  static async arrive(uid: number | undefined): Promise<Person> {
    const home = await mkdtemp(join(tmpdir(), 'panel-up-'))
    await chmod(home, 0o711)
    if (uid === undefined) return new Person(home, [])
    await chown(home, uid, uid)
    return new Person(home, ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'])
  }

  private constructor(home: string, prefix: readonly string[]) {
    this.home = home
    this.#prefix = prefix
  }

  get env(): Record<string, string> {
    return { PATH: process.env['PATH'] ?? '', HOME: this.home, TERM: 'xterm', ...SFTP_HERE }
  }

  /** The command line as a shell would get it. */
  line(...args: string[]): string {
    return [...this.#prefix, ...PANEL, ...args].join(' ')
  }

  /** Runs a command to its end. */
  async run(...args: string[]): Promise<Ran> {
    const running = this.start(...args)
    const [code, signal] = await once(running.child, 'close')
    return { code, signal, stdout: running.stdout(), stderr: running.stderr() }
  }

  async json(...args: string[]) {
    const ran = await this.run(...args, '-o', 'json')
    expect(ran, ran.stderr).toMatchObject({ code: 0 })
    return JSON.parse(ran.stdout)
  }

  /** Starts a command that stays. */
  start(...args: string[]): { child: ChildProcess; stdout: () => string; stderr: () => string } {
    const [file = '', ...rest] = [...this.#prefix, ...PANEL, ...args]
    const child = spawn(file, rest, { env: this.env, cwd: this.home, stdio: ['ignore', 'pipe', 'pipe'] })
    let [stdout, stderr] = ['', '']
    child.stdout.on('data', (chunk: Buffer) => {
      stdout += chunk.toString()
    })
    child.stderr.on('data', (chunk: Buffer) => {
      stderr += chunk.toString()
    })
    this.#children.push(child)
    return { child, stdout: () => stdout, stderr: () => stderr }
  }

  /** Starts `panel up` and waits for its screen. */
  async up(...args: string[]): Promise<{ child: ChildProcess; screen: string; url: string }> {
    const { child, stdout, stderr } = this.start('up', ...args)
    const screen = await until(
      'the screen',
      async () => {
        if (child.exitCode !== null) throw new Error(`ended: ${stdout()}${stderr()}`)
        return stdout().includes('Ctrl-C') && stdout()
      },
      60_000,
    )
    return { child, screen, url: /http:\/\/\S+/.exec(screen)?.[0] ?? '' }
  }

  /** Ends what is left of this person. */
  async leave(): Promise<void> {
    const down = await this.run('down', '--servers')
    for (const child of this.#children) {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL')
        await once(child, 'exit')
      }
    }
    await rm(this.home, { recursive: true, force: true })
    expect(down, down.stderr).toMatchObject({ code: 0 })
  }
}

/** Presses Ctrl-C. */
async function interrupt(child: ChildProcess): Promise<number | null> {
  child.kill('SIGINT')
  await once(child, 'exit')
  return child.exitCode
}

/** Nobody else can read its keys and its database. */
async function expectOwnKeys({ home }: Person): Promise<void> {
  const data = join(home, '.local', 'share', 'panel')
  const secrets = ['local.key', 'credential.key', 'db'].map((name) => join(data, name))
  for (const file of [...secrets, join(home, '.config', 'panel', 'credentials.yaml')]) {
    expect((await stat(file)).mode & 0o077, file).toBe(0)
  }
}

interface Account {
  readonly who: string
  /** The account to change to; without one it is that of this process. */
  readonly uid?: number
}

const isRoot = process.getuid?.() === 0
const accounts: readonly Account[] = isRoot
  ? [{ who: 'root' }, { who: 'an ordinary user', uid: NOBODY }]
  : [{ who: 'an ordinary user' }]

describe.each(accounts)('panel up by $who', ({ uid }) => {
  let person: Person

  beforeEach(async () => {
    person = await Person.arrive(uid)
  })

  afterEach(async () => {
    await person.leave()
  })

  it('keeps its keys to itself, and runs a demo game that a person can list, attach to, detach from and stop', async () => {
    const listen = `127.0.0.1:${await quietPort()}`
    const { screen } = await person.up('--listen', listen)
    expect(screen).toContain(listen)
    expect(screen).toMatch(/demo +running +\S+:\d+/)
    for (const next of ['panel servers list', 'panel console attach demo', 'panel servers create']) {
      expect(screen).toContain(next)
    }

    const [demo] = await person.json('servers', 'list')
    expect(demo).toMatchObject({ name: 'demo', status: 'running' })
    if (uid !== undefined) expect(await userOf(demo.pid)).toBe(uid)
    if (isRoot) expect(await userOf(demo.pid)).toBeGreaterThan(0)
    await expectOwnKeys(person)
    expect(await queryDemo({ host: '127.0.0.1', port: demo.primaryPort })).toMatchObject({ name: 'Gold Rush' })

    const pane = await openPane(100, 30, person.env)
    try {
      await pane.text(person.line('console', 'attach', 'demo'))
      await pane.keys('Enter')
      await pane.shows('takes players on', 20_000)
      await pane.text('status')
      await pane.keys('Enter')
      await pane.shows('players', 10_000)
      await pane.keys('C-]')
      await pane.shows('detached from demo')
    } finally {
      await pane.close()
    }
    expect(await isAlive(demo.pid)).toBe(true)
    expect(await person.json('servers', 'view', 'demo')).toMatchObject({ status: 'running', pid: demo.pid })

    expect(await person.run('servers', 'power', 'stop', 'demo', '--wait')).toMatchObject({ code: 0 })
    expect(await isAlive(demo.pid)).toBe(false)
    expect(await person.json('servers', 'view', 'demo')).toMatchObject({ status: 'stopped', lastExitCode: 0 })
  })

  it('leaves its games at Ctrl-C, takes them up again, and shows its screen to a second one', {
    tags: ['long'],
  }, async () => {
    const listen = ['--listen', `127.0.0.1:${await quietPort()}`]
    const first = await person.up(...listen)
    const { pid, startedAt } = await person.json('servers', 'view', 'demo')
    expect(await interrupt(first.child)).toBe(0)
    expect(await isAlive(pid)).toBe(true)
    expect((await person.run('servers', 'list')).code).toBe(13)

    const second = await person.up(...listen)
    expect(second.screen).toMatch(/demo +running/)
    expect(await person.json('servers', 'view', 'demo')).toMatchObject({
      pid,
      startedAt,
      status: 'running',
      crashCount: 0,
    })

    const beside = await person.run('up')
    expect(beside).toMatchObject({ code: 0, stderr: '' })
    for (const text of [second.url, 'panel servers list', String(second.child.pid)])
      expect(beside.stdout).toContain(text)

    // A daemon that does not get to run cannot stop either; it does when it runs again.
    second.child.kill('SIGSTOP')
    const late = await person.run('down', '--timeout', '300ms')
    expect(late).toMatchObject({ code: 124, stderr: expect.stringContaining('did not stop within 0.3 s') })
    second.child.kill('SIGCONT')
    await until('the first one has ended', async () => second.child.exitCode === 0)
    expect(await isAlive(pid)).toBe(true)

    // Games without a panel are not passed over.
    expect(await person.run('down')).toMatchObject({ code: 0, stderr: expect.stringContaining('one game runs on') })
    const orphans = await person.run('down', '--servers')
    expect(orphans).toMatchObject({ code: 14, stderr: expect.stringContaining('panel up, and in another terminal') })
    expect(await isAlive(pid)).toBe(true)

    await person.up(...listen)
    expect(await person.run('down', '--servers')).toMatchObject({ code: 0 })
    await gone(pid)
    expect(await person.run('down')).toMatchObject({
      code: 0,
      stderr: `no panel runs in the data folder ${join(person.home, '.local', 'share', 'panel')}\n`,
    })
  })
})

describe('panel up on a taken port', () => {
  it('listens on the next one, and its commands find it', { tags: ['long'] }, async () => {
    const taken = createServer()
    // When 7420 is taken by somebody else already, that serves as well.
    await new Promise<void>((resolve) => taken.once('error', () => resolve()).listen(7420, '127.0.0.1', resolve))
    const person = await Person.arrive(undefined)
    try {
      const { url } = await person.up()
      expect(Number(new URL(url).port)).toBeGreaterThan(7420)
      expect(await person.json('servers', 'list')).toHaveLength(1)
      expect(await person.json('daemon', 'status')).toMatchObject({ status: 'running', url })
    } finally {
      await person.leave()
      taken.close()
    }
  })

  it('in another data folder is stopped by its name, which panel down says', { tags: ['long'] }, async () => {
    const person = await Person.arrive(undefined)
    try {
      const other = join(person.home, 'other')
      const { child } = await person.up('--data-dir', other, '--listen', `127.0.0.1:${await quietPort()}`)
      const none = `no panel runs in the data folder ${join(person.home, '.local', 'share', 'panel')}`
      const games = await person.run('down', '--servers')
      expect([games.code, games.stderr]).toEqual([
        14,
        expect.stringContaining(`${none}; that of the context runs in ${other}`),
      ])
      expect(games.stderr).toContain(`try: panel down --servers --data-dir ${other}\n`)
      const plain = await person.run('down')
      expect([plain.code, plain.stderr]).toEqual([
        0,
        `${none}\nnext: panel down --data-dir ${other} (the panel of the context in force)\n`,
      ])
      expect(child.exitCode).toBe(null)
      expect(await person.run('down', '--servers', '--data-dir', other)).toMatchObject({ code: 0 })
      await until('it has ended', async () => child.exitCode === 0)
    } finally {
      await person.leave()
    }
  })

  it('refuses a port that was asked for and is taken', { tags: ['long'] }, async () => {
    const port = await quietPort()
    const taken = createServer().listen(port, '127.0.0.1')
    await once(taken, 'listening')
    const person = await Person.arrive(undefined)
    try {
      const ran = await person.run('up', '--listen', `127.0.0.1:${port}`)
      expect(ran).toMatchObject({ code: 14, stderr: expect.stringContaining(String(port)) })
    } finally {
      await person.leave()
      taken.close()
    }
  })
})
