import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { FaultPanel } from '../faults/fault-panel.ts'
import { SmallDisk } from '../faults/small-disk.ts'
import { quietPort } from '../ports.ts'
import { DIST, SFTP_HERE } from '../run-panel.ts'
import { isAlive, until } from './wait.ts'

/** What a pipe holds, and what the program keeps of lines that cannot be written, are less than this many lines take. */
const MANY_REQUESTS = 18_000
const AT_ONCE = 20

let home: string
let children: ChildProcess[]
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-log-'))
  await chmod(home, 0o711)
  children = []
})
afterEach(async () => {
  await endAll()
  await rm(home, { recursive: true, force: true })
})

async function endAll(): Promise<void> {
  for (const child of children) if (child.exitCode === null && child.signalCode === null) await ended(child, 'SIGKILL')
}

interface Line {
  readonly level: string
  readonly time: string
  readonly msg: string
  readonly requestId?: string
  readonly lines?: number
}

it('a daemon whose log is on a full disk serves, says later how many lines were lost, and heeds SIGTERM', {
  timeout: 120_000,
}, async ({ skip }) => {
  const disk = await SmallDisk.mount(8)
  if (disk === undefined) return skip('needs root, to mount a small disk')
  try {
    const file = join(disk.folder, 'log')
    const out = openSync(file, 'a')
    await disk.fill()
    const { daemon, url } = await startDaemon([out, out])
    closeSync(out)
    await askOften(url)
    await disk.clear()
    const lines = await until('it says what was lost', async () => {
      const read = linesOf(await readFile(file, 'utf8'))
      return read.some(({ msg }) => msg === LOST) && read
    })
    expectInOrder(lines)
    await disk.fill()
    await askOften(url, 100)
    expect(await ended(daemon, 'SIGTERM')).toBe(0)
    expect(lines[0]?.msg).toBe('database migrated')
  } finally {
    await endAll()
    await disk.unmount()
  }
})

it('a daemon whose log nobody reads any more serves and heeds SIGTERM', { timeout: 60_000 }, async () => {
  const { daemon, url } = await startDaemon(['pipe', 'pipe'])
  daemon.stdout?.destroy()
  daemon.stderr?.destroy()
  await askOften(url, 500)
  expect(await ended(daemon, 'SIGTERM')).toBe(0)
})

it('a daemon whose log is not read serves, says later how many lines were lost, and heeds SIGTERM', {
  timeout: 120_000,
}, async () => {
  const { daemon, url } = await startDaemon(['pipe', 'pipe'])
  await askOften(url)
  const read = readLog(daemon)
  await until('it says what was lost', async () => linesOf(read()).some(({ msg }) => msg === LOST))
  daemon.stdout?.pause()
  await askOften(url, 2000)
  expectInOrder(linesOf(read()))
  expect(await ended(daemon, 'SIGTERM')).toBe(0)
})

it('an agent whose log is on a full disk or not read any more works and heeds SIGTERM', {
  timeout: 60_000,
}, async ({ skip }) => {
  const disk = await SmallDisk.mount(2)
  if (disk === undefined) return skip('needs root, to mount a small disk')
  const panel = await FaultPanel.enter()
  try {
    const node = await panel.addMachine('box')
    await panel.killAgent(node, 'SIGTERM')
    node.agent = undefined
    const out = openSync(join(disk.folder, 'log'), 'a')
    await disk.fill()
    const run = ['agent', 'run', '--data-dir', node.dir, '--panel-url', panel.url]
    const onDisk = program(run, { stdio: [out, out], env: panel.environment() })
    closeSync(out)
    await panel.online(node)
    expect(await ended(onDisk, 'SIGTERM')).toBe(0)
    await panel.online(node, false)
    const alone = program(run, { stdio: ['pipe', 'pipe'], env: panel.environment() })
    alone.stdout?.destroy()
    alone.stderr?.destroy()
    await panel.online(node)
    expect(await ended(alone, 'SIGTERM')).toBe(0)
  } finally {
    await endAll()
    await panel.leave()
    await disk.unmount()
  }
})

it('a daemon that ends by a bug says so, in a file and in a pipe', { timeout: 60_000 }, async () => {
  const bug = `process.on('SIGUSR2', () => { throw new Error('planted') })`
  const env = { NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(bug)}` }
  const file = join(home, 'log')
  const out = openSync(file, 'a')
  const toFile = await startDaemon([out, out], env)
  closeSync(out)
  await until('it asks for an administrator', async () => (await readFile(file, 'utf8')).includes(TOKEN))
  expect(await ended(toFile.daemon, 'SIGUSR2')).toBe(1)
  const toPipe = await startDaemon(['pipe', 'pipe'], env)
  const read = readLog(toPipe.daemon)
  await until('it asks for an administrator', async () => read().includes(TOKEN))
  expect(await ended(toPipe.daemon, 'SIGUSR2')).toBe(1)
  for (const log of [await readFile(file, 'utf8'), read()]) {
    expect(log).toContain('uncaught exception, daemon exits')
    expect(log.indexOf('daemon ready')).toBeLessThan(log.indexOf(TOKEN))
  }
})

const TOKEN = 'Its setup token'
const LOST = 'log lines are lost, the log could not be written'

/** A daemon that logs every request; what it writes goes to these two. */
async function startDaemon(stdio: readonly ['pipe' | number, 'pipe' | number], env: Record<string, string> = {}) {
  const port = await quietPort()
  const url = `http://127.0.0.1:${port}`
  const run = ['daemon', 'run', '--listen', `127.0.0.1:${port}`, '--data-dir', join(home, `daemon-${port}`)]
  const daemon = program([...run, '--log-level', 'debug'], {
    stdio,
    env: { ...env, PANEL_LIMITS__REQUESTS_PER_MINUTE: '1000000' },
  })
  await until('the daemon is ready', async () => {
    if (daemon.exitCode !== null) throw new Error(`it ended with ${daemon.exitCode}`)
    return (await fetch(`${url}/readyz`)).ok
  })
  return { daemon, url }
}

function program(
  args: readonly string[],
  { stdio, env }: { stdio: readonly ['pipe' | number, 'pipe' | number]; env: Record<string, string> },
): ChildProcess {
  const child = spawn(process.execPath, [join(DIST, 'bin', 'panel.js'), ...args], {
    env: { PATH: process.env['PATH'] ?? '', ...SFTP_HERE, HOME: home, ...env },
    stdio: ['ignore', ...stdio],
  })
  children.push(child)
  return child
}

/** Requests that are each a line of the log. */
async function askOften(url: string, times = MANY_REQUESTS): Promise<void> {
  const { hostname, port } = new URL(url)
  const request = (last: boolean): string =>
    `GET /api/settings/public HTTP/1.1\r\nHost: ${hostname}:${port}\r\n${last ? 'Connection: close\r\n' : ''}\r\n`
  const ask = async (): Promise<void> => {
    const socket = connect(Number(port), hostname)
    socket.write(request(false).repeat(times / AT_ONCE - 1) + request(true))
    const answers = await text(socket)
    expect(answers.split('HTTP/1.1 200 OK').length - 1).toBe(times / AT_ONCE)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
}

/** Reads both outputs from now on; what is there so far. */
function readLog({ stdout, stderr }: ChildProcess): () => string {
  let log = ''
  for (const stream of [stdout, stderr]) stream?.setEncoding('utf8').on('data', (piece: string) => (log += piece))
  return () => log
}

function linesOf(log: string): Line[] {
  return log
    .split('\n')
    .slice(0, -1)
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line))
}

/** Nothing twice, nothing torn, nothing before its time, and what is missing is counted. */
function expectInOrder(lines: readonly Line[]): void {
  const answered = lines.filter(({ msg }) => msg === 'request answered')
  expect(new Set(answered.map(({ requestId }) => requestId)).size).toBe(answered.length)
  const times = lines.map(({ time }) => time)
  expect(times).toEqual(times.toSorted())
  const lost = lines.reduce((sum, line) => sum + (line.msg === LOST ? (line.lines ?? 0) : 0), 0)
  expect(lost).toBeGreaterThan(0)
  expect(lost + answered.length).toBeGreaterThanOrEqual(MANY_REQUESTS)
}

/** The exit code of a program that gets this signal. */
async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  const end = child.exitCode === null ? once(child, 'exit') : undefined
  child.kill(signal)
  if (end === undefined || child.pid === undefined) return child.exitCode
  const { pid } = child
  await until(`${pid} ends`, async () => !(await isAlive(pid)), 15_000)
  await end
  return child.exitCode
}
