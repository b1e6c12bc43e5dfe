import { readdir, readFile, readlink } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { hasTerminals } from '../../src/agent/holder/process/terminal.ts'
import { type ConsoleLine, FetchResult } from '../../src/shared/protocol/console.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { skippedUnless } from '../skips.ts'
import { AgentStage, gameSpec, isAlive } from './agent-stage.ts'

const CAN = hasTerminals()

let stage: AgentStage
const used: string[] = []

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave(used)
}, 60_000)

const TERMINAL: Pick<ServerSpec, 'console'> = { console: { logMb: 8, input: { kind: 'pty', columns: 120, rows: 40 } } }

/** Starts a game with a terminal and follows its console. */
async function start(name: string, startup: string, change: Partial<ServerSpec> = {}): Promise<string> {
  const id = `srv_${name}`
  used.push(id)
  const spec = gameSpec(id, 1, { startup, ...TERMINAL, ...change })
  expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
  await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
  return id
}

function running(id: string) {
  return stage.peer.report(id, 'running', ({ power }) => power === 'running')
}

function texts(id: string, stream: ConsoleLine[2] = 'stdout'): string[] {
  return stage.peer.lines(id).flatMap(([, , from, text]) => (from === stream ? [text] : []))
}

async function says(id: string, text: string): Promise<void> {
  await stage.peer.until(`the line ${text}`, () => texts(id).includes(text))
}

function type(id: string, ...lines: string[]) {
  return stage.peer.request({ op: 'console.input', serverId: id, lines })
}

async function holderOf(id: string): Promise<number> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const names = await Promise.all(pids.map(commandLine))
  const found = names.find(({ line }) => line.includes('__holder') && line.includes(id))
  if (found === undefined) throw new Error(`no holder of ${id}`)
  return found.pid
}

/** The processes that copy between the terminal and the console: they have the FIFOs of the run open. */
async function copiersOf(id: string): Promise<number[]> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name))
  const isCopier = async (pid: string): Promise<boolean> => {
    const { line } = await commandLine(pid)
    if (!line.startsWith('cat\0')) return false
    const files = await readdir(join('/proc', pid, 'fd')).catch(() => [])
    const targets = await Promise.all(files.map((fd) => readlink(join('/proc', pid, 'fd', fd)).catch(() => '')))
    return targets.some((target) => target.includes(`/${id}/`))
  }
  const found = await Promise.all(pids.map(async (pid) => ((await isCopier(pid)) ? [Number(pid)] : [])))
  return found.flat()
}

async function commandLine(pid: string): Promise<{ pid: number; line: string }> {
  return { pid: Number(pid), line: await readFile(join('/proc', pid, 'cmdline'), 'utf8').catch(() => '') }
}

/** Says what its terminal is, then what it reads. */
const TALK = 'tty; stty size; echo ready; while read -r line; do echo "got $line"; [ "$line" = stop ] && exit 0; done'

describe.skipIf(!CAN)(`a game with a terminal${skippedUnless(CAN, 'a binary of @lydell/node-pty')}`, () => {
  it('shows the lines of a program at once that keeps them back on a pipe', async () => {
    const buffering = "print('ready')\nwhile True: print('got ' + input())"
    const id = await start('buffering', `exec python3 -c "${buffering}"`, {
      stop: { type: 'signal', value: 'SIGKILL', timeoutMs: 1000 },
    })
    await running(id)
    await type(id, 'hello')
    await says(id, 'got hello')
  })

  it('has the size of its template, its typed lines once, and the output in one stream', async () => {
    const id = await start('talk', TALK)
    await says(id, 'ready')
    expect(texts(id)).toEqual([expect.stringMatching(/^\/dev\/pts\/\d+$/), '40 120', 'ready'])
    await type(id, 'hello')
    await says(id, 'got hello')
    expect(texts(id)).not.toContain('hello')
    expect(texts(id, 'stdin')).toEqual(['hello'])
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 0, expected: true })
  })

  it('refuses keys in typed lines, and lines that a terminal would cut', async () => {
    const id = await start('keys', TALK)
    await running(id)
    for (const line of ['a\u0003b', 'a\u001ab', 'x'.repeat(4095)]) {
      expect((await type(id, line)).error?.code).toBe('BAD_REQUEST')
    }
    await type(id, 'x'.repeat(4000))
    await says(id, `got ${'x'.repeat(4000)}`)
  })

  it.each([
    ['interrupt', '^C', 'SIGINT', "trap 'echo interrupted; exit 3' INT"],
    ['quit', '^\\', 'SIGQUIT', "trap 'echo interrupted; exit 3' QUIT"],
  ] as const)('is stopped by the key %s, of which the program hears once', async (name, key, value, trap) => {
    // A second signal would end the wait for the saving.
    const startup = `${trap}; stty -a | grep -c isig; echo ready; while :; do sleep 0.05; done`
    const id = await start(name, startup, { stop: { type: 'signal', value, key, timeoutMs: 5000 } })
    await running(id)
    await stage.peer.order(id, 2, { op: 'stop' })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 3, expected: true })
    expect(texts(id).filter((text) => text === 'interrupted')).toHaveLength(1)
  })

  it('gets the signal after the key when its terminal is raw', async () => {
    const game = [
      'import signal, sys, termios, tty, os',
      "signal.signal(signal.SIGINT, lambda *_: (print('signal\\\\r'), sys.exit(4)))",
      'tty.setraw(0)',
      "print('ready\\\\r', flush=True)",
      "print('key %d\\\\r' % os.read(0, 1)[0], flush=True)",
      'signal.pause()',
    ].join('; ')
    const id = await start('raw', `exec python3 -c "${game}"`, {
      stop: { type: 'signal', value: 'SIGINT', key: '^C', timeoutMs: 5000 },
    })
    await running(id)
    await stage.peer.order(id, 2, { op: 'stop' })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 4 })
    expect(texts(id)).toContain('signal')
  })

  it('is stopped by the end of its input', async () => {
    const id = await start('eof', `${TALK}; echo bye`, {
      stop: { type: 'signal', value: 'SIGTERM', key: '^D', timeoutMs: 5000 },
    })
    await running(id)
    await stage.peer.order(id, 2, { op: 'stop' })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 0, expected: true })
    expect(texts(id)).toContain('bye')
  })

  it('keeps its last words: all of a flood that it ends with', async () => {
    const id = await start('flood', 'echo ready; seq 1 30000; echo end', {
      restart: { policy: 'never', maxCrashes: 5 },
    })
    const { console } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    await says(id, 'end')
    const numbers: string[] = []
    for (let after = 0; after < console.last; ) {
      const { result } = await stage.peer.request({ op: 'console.fetch', serverId: id, after, max: 5000 })
      const { lines } = FetchResult.parse(result)
      numbers.push(...lines.flatMap(([, , , text]) => (/^\d+$/.test(text) ? [text] : [])))
      after = lines.at(-1)?.[0] ?? console.last
    }
    expect(numbers).toEqual(Array.from({ length: 30_000 }, (_, index) => String(index + 1)))
  })

  it('ends with a hang-up, and counts as crashed, when its terminal is taken away', async () => {
    const id = await start('hangup', TALK, { restart: { policy: 'never', maxCrashes: 5 } })
    await running(id)
    await stage.peer.until('the name of its terminal', () => texts(id).length > 0)
    for (const pid of await copiersOf(id)) process.kill(pid, 'SIGKILL')
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: null, signal: 'SIGHUP', expected: false })
  })

  it('lives on when its holder and the agent are killed, and loses no line', { tags: ['long'] }, async () => {
    const id = await start('holder', `${TALK}`)
    const { pid } = await running(id)
    process.kill(await holderOf(id), 'SIGKILL')
    await stage.killAgent()
    await stage.startAgent()
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    await stage.peer.until('a holder again', () => texts(id, 'system').some((text) => text.includes('replaced')))
    await type(id, 'again')
    await says(id, 'got again')
    expect(await isAlive(pid ?? 0)).toBe(true)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const { lastExit } = await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ code: 0, expected: true })
  })
})
