// @module-tag long
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FetchResult, type LineStream } from '../../src/shared/protocol/console.ts'
import type { ServerMount } from '../../src/shared/protocol/mounts.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from '../agent/agent-stage.ts'
import { EngineStage, noEngine, TestBridge } from '../agent/docker/engine-stage.ts'
import { holderPid, until } from '../agent/runtime/rig.ts'
import { quietPort } from '../ports.ts'
import { DIST } from '../run-panel.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const PASSWORD = 'correct-horse'
const NODE_IMAGE = 'node:1'
const used: string[] = []
let bridge: TestBridge
let engine: EngineStage
let stage: AgentStage
/** A folder in which nobody else may rename; `/tmp` is open to all. */
let machine: string

describe.skipIf(missing !== undefined)(`consoles and mounts of containers${WHY_NOT}`, () => {
  beforeAll(async () => {
    bridge = new TestBridge()
    engine = await EngineStage.begin(bridge.name)
    await engine.importImage(NODE_IMAGE, 0, [process.execPath])
    machine = mkdtempSync('/srv/panel-mounts-')
    chmodSync(machine, 0o755)
    for (const name of ['maps', 'shared', 'secret']) mkdirSync(join(machine, name))
    chmodSync(join(machine, 'shared'), 0o777)
    writeFileSync(join(machine, 'maps', 'readme'), 'a map of the node\n')
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'bridge' }
    stage.mounts = [
      { source: join(machine, 'maps'), readOnly: true },
      { source: join(machine, 'shared'), readOnly: false },
    ]
    await stage.startAgent()
  })

  afterAll(async () => {
    await stage?.leave(used)
    await engine?.end([])
    bridge?.remove()
    rmSync(machine, { recursive: true, force: true })
  })

  // The size comes a moment after the start with engines that take none before.
  const TALK =
    'tty; until size=$(stty size 2> /dev/null) && [ -n "$size" ]; do sleep 0.02; done; echo "$size"; echo ready; while read -r line; do echo "got $line"; [ "$line" = stop ] && exit 0; done'
  const PTY: ServerSpec['console'] = { logMb: 8, input: { kind: 'pty', columns: 120, rows: 40 } }

  it('a terminal has its size, typed lines once, one output, keys, and is the same one for the next holder', async () => {
    const id = await start('pty', { startup: TALK, console: PTY })
    await says(id, 'ready')
    expect(texts(id)).toEqual([expect.stringMatching(/^\/dev\/(?:pts\/\d+|console)$/), '40 120', 'ready'])
    await type(id, 'hello')
    await says(id, 'got hello')
    expect(texts(id)).not.toContain('hello')
    expect((await stage.peer.request({ op: 'console.input', serverId: id, lines: ['a\u0003b'] })).error?.code).toBe(
      'BAD_REQUEST',
    )
    await killHolder(id, '')
    await type(id, 'again')
    await says(id, 'got again')
    expect(texts(id).filter((text) => text === 'got hello')).toHaveLength(1)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    expect((await offline(id)).lastExit).toMatchObject({ code: 0, expected: true })
  })

  it('a flood over a terminal is whole, by the attachment and, when the engine was killed, by its log', async () => {
    const startup =
      'echo ready; i=0; while [ ! -e stop ]; do i=$((i+1)); echo "line $i"; [ $((i%100)) = 0 ] && sleep 0.01; done; echo over'
    const restart = { policy: 'never', maxCrashes: 1 } as const
    const id = await start('pty-flood', { startup, console: PTY, restart })
    await stage.peer.until('lines', () => texts(id).length > 500)
    await engine.endEngine('SIGKILL')
    const before = texts(id).length
    await engine.startEngine()
    await stage.peer.until('more lines', () => texts(id).length > before + 500)
    writeFileSync(join(stage.dataDir, 'servers', id, 'stop'), '')
    const { console } = await offline(id)
    const lines = (await allOf(id, console.last)).filter((text) => text.startsWith('line '))
    expect(lines.length).toBeGreaterThan(1000)
    expect(lines.findIndex((line, i) => line !== `line ${i + 1}`)).toBe(-1)
  })

  it('the key of a stop command interrupts the program of a terminal, which hears it once', async () => {
    const startup = "trap 'echo interrupted; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    const stop = { type: 'signal', value: 'SIGINT', key: '^C', timeoutMs: 5000 } as const
    const id = await start('pty-key', { startup, console: PTY, stop })
    await says(id, 'ready')
    await stage.peer.order(id, 2, { op: 'stop' })
    expect((await offline(id)).lastExit).toMatchObject({ code: 3, expected: true })
    expect(texts(id).filter((text) => text === 'interrupted')).toHaveLength(1)
  })

  it('a log file in the folder of a container is followed over a rotation and a holder that is killed', async () => {
    const startup = 'mkdir -p logs; echo ready; while read -r command; do eval "$command"; done'
    const console: ServerSpec['console'] = { logMb: 8, input: { kind: 'file', path: 'logs/latest.log' } }
    const id = await start('file', { startup, console, stop: { type: 'command', value: 'exit 0', timeoutMs: 5000 } })
    await type(id, 'echo one > logs/latest.log')
    await says(id, 'one')
    await type(id, 'mv logs/latest.log logs/1.log; echo late >> logs/1.log; echo two > logs/latest.log')
    await says(id, 'two')
    await killHolder(id, 'true')
    await type(id, 'echo three >> logs/latest.log')
    await says(id, 'three')
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    await offline(id)
    expect(texts(id)).toEqual(['ready', 'one', 'late', 'two', 'three'])
  })

  it.each(['source', 'minecraft'] as const)(
    'RCON of %s goes to the published port of the container, with the answer in the console',
    async (protocol) => {
      const id = await rcon(protocol, { protocol, isPublished: true })
      expect(await send(id, 'list', 'long 300')).toBeNull()
      await says(id, 'line 299')
      expect(texts(id)).toEqual(expect.arrayContaining(['did list', 'line 0']))
      expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
      expect((await offline(id)).lastExit).toMatchObject({ code: 0, expected: true })
      expect(JSON.stringify(stage.peer.lines(id))).not.toContain(PASSWORD)
    },
  )

  it('RCON at a port that is not published sends its password to nobody, also not to who has that port on the machine', async () => {
    const heard: string[] = []
    const stranger = createServer((socket) => {
      socket.on('error', () => undefined)
      socket.on('data', (chunk) => heard.push(chunk.toString('latin1')))
    })
    const port = await quietPort()
    await new Promise<void>((resolve) => stranger.listen(port, '127.0.0.1', resolve))
    try {
      const id = await rcon('inside', { protocol: 'source', isPublished: false, port })
      expect(await send(id, 'list')).toMatchObject({
        code: 'RCON_FAILED',
        message: expect.stringContaining('does not listen on its RCON port'),
      })
      expect(heard).toEqual([])
    } finally {
      await new Promise((resolve) => stranger.close(resolve))
    }
  })

  it('a game that opens its port late is starting until then, and the engine is no other program that has its port', async () => {
    const port = await quietPort()
    const id = 'srv_late'
    used.push(id)
    const startup =
      'echo ready; while [ ! -e go ]; do sleep 0.1; done; while :; do echo pong | nc -l -p "$SERVER_PORT"; done'
    const ports = [{ ip: '127.0.0.1', port, primary: true }]
    const spec = gameSpec(id, 1, { runtime: 'docker', image: 'game:1', startup, ports, listens: 'tcp' })
    expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
    const { reason } = await stage.peer.report(id, 'a reason', (report) => report.reason !== null)
    expect(reason).toBe(`No process of the server listens on TCP 127.0.0.1:${port}; it listens on no port`)
    writeFileSync(join(stage.dataDir, 'servers', id, 'go'), '')
    await stage.peer.report(id, 'running', ({ power, reason }) => power === 'running' && reason === null)
  })

  it('mounts are in the folder of a container and elsewhere in it, read only where that is said, and go with nothing', async () => {
    const startup = [
      'cat maps/readme /data/maps/readme',
      'echo mine > maps/written || echo "maps refused"',
      'echo mine > shared/written && echo "shared written"',
      'echo ready; read -r line',
    ].join('\n')
    const mounts = [mount('maps', 'maps', true), mount('maps', '/data/maps', true), mount('shared', 'shared')]
    const id = await start('mounted', { startup, mounts })
    await says(id, 'ready')
    expect(texts(id)).toEqual(['a map of the node', 'a map of the node', 'maps refused', 'shared written', 'ready'])
    expect(await stage.peer.order(id, 2, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect(readFileSync(join(machine, 'shared', 'written'), 'utf8')).toBe('mine\n')
    expect(readFileSync(join(machine, 'maps', 'readme'), 'utf8')).toBe('a map of the node\n')
  })

  it('mounts that the node does not allow fail the start of a container, with the reason, before it is made', async () => {
    for (const [name, one, why] of [
      ['secret', mount('secret', '/data/secret'), 'not in a folder that its agent allows'],
      ['writable', mount('maps', 'maps'), 'read only (:ro)'],
      ['socket', mount(engine.socket, '/data/socket'), 'refused by this node'],
      ['own', mount(join(stage.dataDir, 'state'), '/data/state'), 'never given to a server'],
    ] as const) {
      const id = `srv_refused_${name}`
      used.push(id)
      const spec = gameSpec(id, 1, { runtime: 'docker', image: 'game:1', mounts: [one] })
      const done = await stage.peer.order(id, 1, { op: 'start', spec })
      expect(done.error?.message, name).toContain(why)
      expect(await engine.listed(id)).toEqual([])
    }
  })

  it('a link that a game has put where a mount is to lie leads nowhere outside of its container', async () => {
    const id = 'srv_link'
    const folder = join(stage.dataDir, 'servers', id)
    mkdirSync(folder, { recursive: true })
    symlinkSync(join(machine, 'secret'), join(folder, 'maps'))
    used.push(id)
    const spec = gameSpec(id, 1, { runtime: 'docker', image: 'game:1', mounts: [mount('shared', 'maps/inner')] })
    expect((await stage.peer.order(id, 1, { op: 'start', spec })).ok).toBe(false)
    expect(() => readFileSync(join(machine, 'secret', 'inner'))).toThrow('ENOENT')
  })

  async function start(name: string, change: Partial<ServerSpec>): Promise<string> {
    const id = `srv_${name}`
    used.push(id)
    const spec = gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
    const done = await stage.peer.order(id, 1, { op: 'start', spec })
    expect(done, JSON.stringify(done.error)).toMatchObject({ ok: true })
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 1000 })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    return id
  }

  /** A game with RCON, whose port is an allocation of the server or not. */
  async function rcon(
    name: string,
    { protocol, isPublished, port }: { protocol: 'source' | 'minecraft'; isPublished: boolean; port?: number },
  ): Promise<string> {
    const [rconPort, gamePort] = [port ?? (await quietPort()), await quietPort()]
    const id = `srv_rcon_${name}`
    mkdirSync(join(stage.dataDir, 'servers', id), { recursive: true })
    // The program listens on loopback, where no engine reaches it.
    const program = readFileSync(join(DIST, 'test', 'agent', 'rcon-game.js'), 'utf8').replaceAll('127.0.0.1', '0.0.0.0')
    writeFileSync(join(stage.dataDir, 'servers', id, 'game.mjs'), program)
    const own = { ip: '127.0.0.1', port: gamePort, primary: true }
    const input = { kind: 'rcon', protocol, port: 'RCON_PORT', passwordVariable: 'RCON_PASSWORD' } as const
    return await start(`rcon_${name}`, {
      image: NODE_IMAGE,
      startup: `exec ${process.execPath} game.mjs ${protocol} {{RCON_PORT}} {{RCON_PASSWORD}}`,
      env: { RCON_PORT: String(rconPort), RCON_PASSWORD: PASSWORD },
      console: { logMb: 8, input },
      ports: isPublished ? [own, { ip: '127.0.0.1', port: rconPort, primary: false, protocol: 'tcp' }] : [own],
      restart: { policy: 'never', maxCrashes: 5 },
    })
  }

  function mount(source: string, target: string, readOnly = false): ServerMount {
    return { source: source.startsWith('/') ? source : join(machine, source), target, readOnly }
  }

  const at = (id: string) => ({ serverId: id, files: '', state: join(stage.dataDir, 'state', id) })

  function texts(id: string, stream: LineStream = 'stdout'): string[] {
    return stage.peer.lines(id).flatMap(([, , from, text]) => (from === stream ? [text] : []))
  }

  /** All lines that the console has, also those that were not sent. */
  async function allOf(id: string, last: number): Promise<string[]> {
    const all: string[] = []
    for (let after = 0; after < last; ) {
      const { result } = await stage.peer.request({ op: 'console.fetch', serverId: id, after, max: 5000 })
      const { lines } = FetchResult.parse(result)
      all.push(...lines.map(([, , , text]) => text))
      after = lines.at(-1)?.[0] ?? last
    }
    return all
  }

  async function says(id: string, text: string): Promise<void> {
    await stage.peer.until(`the line ${text}`, () => texts(id).includes(text))
  }

  async function send(id: string, ...lines: string[]) {
    return (await stage.peer.request({ op: 'console.input', serverId: id, lines })).error
  }

  async function type(id: string, line: string): Promise<void> {
    expect(await send(id, line)).toBeNull()
  }

  /** Resolves when the next holder takes lines: `line` does nothing. */
  async function killHolder(id: string, line: string): Promise<void> {
    process.kill(await holderPid(at(id)), 'SIGKILL')
    await stage.peer.until('a holder again', () => texts(id, 'system').some((text) => text.includes('replaced')))
    await until('its input', async () => (await send(id, line)) === null)
  }

  function offline(id: string) {
    return stage.peer.report(id, 'offline', ({ power }) => power === 'offline')
  }
})
