// @module-tag long
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ConsoleLine } from '../../src/shared/protocol/console.ts'
import { AgentStage, gameSpec } from './agent-stage.ts'

let stage: AgentStage
const used: string[] = []

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave(used)
}, 60_000)

/** Does what it is told with its log file. */
const GAME = `
mkdir -p logs
echo ready
while read -r command; do eval "$command"; done
`

async function start(name: string, { before = '' } = {}): Promise<string> {
  const id = `srv_${name}`
  used.push(id)
  const spec = gameSpec(id, 1, {
    startup: `${before}${GAME}`,
    console: { logMb: 8, input: { kind: 'file', path: 'logs/latest.log' } },
    stop: { type: 'command', value: 'exit 0', timeoutMs: 5000 },
    restart: { policy: 'never', maxCrashes: 5 },
  })
  expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
  await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 1000 })
  await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  return id
}

/** What the game's log file has brought into the console. */
function logged(id: string, stream: ConsoleLine[2] = 'stdout'): string[] {
  return stage.peer.lines(id).flatMap(([, , from, text]) => (from === stream && text !== 'ready' ? [text] : []))
}

async function run(id: string, command: string): Promise<void> {
  expect((await stage.peer.request({ op: 'console.input', serverId: id, lines: [command] })).error).toBeNull()
}

async function shows(id: string, ...lines: string[]): Promise<void> {
  await stage.peer.until(`the lines ${lines.join(', ')}`, () => logged(id).join() === lines.join())
}

async function holderOf(id: string): Promise<number> {
  for (const pid of await readdir('/proc')) {
    if (!/^\d+$/.test(pid)) continue
    const line = await readFile(join('/proc', pid, 'cmdline'), 'utf8').catch(() => '')
    if (line.includes('__holder') && line.includes(id)) return Number(pid)
  }
  throw new Error(`no holder of ${id}`)
}

describe('a log file as the console', () => {
  it('is followed from the moment it is made, by whole lines, over a rotation by rename and a cut', async () => {
    const id = await start('rotated')
    await run(id, 'echo one > logs/latest.log; printf half >> logs/latest.log')
    await shows(id, 'one')
    await run(id, 'echo " and half" >> logs/latest.log')
    await shows(id, 'one', 'half and half')
    // What is written into the old file after its rename comes too, and its last line needs no end.
    await run(id, 'mv logs/latest.log logs/1.log; printf "late\\nopen" >> logs/1.log; echo new > logs/latest.log')
    await shows(id, 'one', 'half and half', 'late', 'open', 'new')
    await run(id, 'echo cut > logs/latest.log')
    await shows(id, 'one', 'half and half', 'late', 'open', 'new', 'cut')
    // Written anew, and longer than before, between two looks.
    await run(id, 'printf "a longer line\\nand one more\\n" > logs/latest.log')
    await shows(id, 'one', 'half and half', 'late', 'open', 'new', 'cut', 'a longer line', 'and one more')
  })

  it('begins behind what earlier runs have written, and has the last words of the game', async () => {
    const id = await start('old', { before: 'mkdir -p logs; [ -e logs/latest.log ] || echo old > logs/latest.log;' })
    await shows(id, 'old')
    await run(id, 'echo last >> logs/latest.log; exit 0')
    await stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
    await shows(id, 'old', 'last')
    const spec = gameSpec(id, 2, {
      startup: GAME,
      console: { logMb: 8, input: { kind: 'file', path: 'logs/latest.log' } },
    })
    await stage.peer.order(id, 2, { op: 'start', spec })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await run(id, 'echo again >> logs/latest.log')
    await shows(id, 'old', 'last', 'again')
  })

  it('is not read through a link, nor when it is no file, and says so once', async () => {
    const id = await start('linked')
    await run(id, 'echo secret > other; ln -s ../other logs/latest.log')
    const refusals = (): string[] => logged(id, 'system').filter((text) => text.includes('logs/latest.log'))
    await stage.peer.until('the refusal', () => refusals().length > 0)
    expect(refusals()).toEqual(['The log file logs/latest.log is a symbolic link and is not shown here'])
    await run(id, 'rm logs/latest.log; mkfifo logs/latest.log')
    await stage.peer.until('the second refusal', () => refusals().length > 1)
    await run(id, 'rm logs/latest.log; echo real > logs/latest.log')
    await shows(id, 'real')
    await run(id, 'mv logs elsewhere; mkdir target; echo secret > target/latest.log; ln -s target logs')
    await run(id, 'echo still >> elsewhere/latest.log')
    await shows(id, 'real', 'still')
  })

  it('shows a line without an end in pieces once it is longer than one', async () => {
    const id = await start('endless')
    await run(id, "head -c 40000 /dev/zero | tr '\\0' x > logs/latest.log")
    await stage.peer.until('two pieces', () => logged(id).length === 2)
    expect(logged(id).map((text) => text.length)).toEqual([16_384, 16_384])
  })

  it('goes on where it was when holder and agent are killed, without a line lost or twice', async () => {
    const id = await start('resumed')
    await run(id, '(i=0; while [ $i -lt 250 ]; do echo "line $i" >> logs/latest.log; i=$((i+1)); sleep 0.01; done) &')
    for (let kills = 0; kills < 2; kills++) {
      const at = logged(id).length
      await stage.peer.until('more lines', () => logged(id).length > at + 20)
      process.kill(await holderOf(id), 'SIGKILL')
      await stage.killAgent()
      await stage.startAgent()
      await stage.peer.request({ op: 'console.subscribe', serverId: id, after: stage.peer.lines(id).at(-1)?.[0] ?? 0 })
    }
    await stage.peer.until('the last line', () => logged(id).includes('line 249'))
    expect(logged(id)).toEqual(Array.from({ length: 250 }, (_, index) => `line ${index}`))
  }, 60_000)
})
