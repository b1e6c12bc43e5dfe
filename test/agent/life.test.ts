import { existsSync } from 'node:fs'
import { readFile, writeFile } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runningServers } from '../../src/agent/running-servers.ts'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { until } from '../e2e/wait.ts'
import { quietPort } from '../ports.ts'
import { gameSpec, isAlive } from './agent-stage.ts'
import { InnerAgent } from './inner-agent.ts'
import { texts } from './runtime/rig.ts'

const NEVER: ServerSpec['restart'] = { policy: 'never', maxCrashes: 5 }
/** Sleeps in small pieces: a shell handles a signal only between two commands. */
const WAITS = 'while :; do sleep 0.1; done'
const SAVES = `trap 'sleep 1; echo all > saved; exit 0' TERM; echo ready; ${WAITS}`
const IGNORES = `trap '' TERM; echo ready; ${WAITS}`
const byTerm = (timeoutMs: number): ServerSpec['stop'] => ({ type: 'signal', value: 'SIGTERM', timeoutMs })

let agent: InnerAgent
/** What Node says of listeners that nobody removes. */
const warnings: string[] = []
const onWarning = (warning: Error): number => warnings.push(String(warning))

beforeAll(async () => {
  process.on('warning', onWarning)
  agent = await InnerAgent.enter()
}, 60_000)

afterAll(async () => {
  process.off('warning', onWarning)
  await agent.leave()
}, 60_000)

const stop = (timeoutMs?: number) => () =>
  timeoutMs === undefined ? ({ op: 'stop' } as const) : ({ op: 'stop', timeoutMs } as const)

function listenOn(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.on('error', () => {})).once('error', reject) // reset by the test
    server.listen(port, '127.0.0.1', () => resolve(server))
  })
}

function isListening(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1' }, () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

// The address of a listening TCP server is never a string or null.
const portOf = (server: Server) => (server.address() as AddressInfo).port

const closed = (server: Server) => new Promise<void>((resolve) => server.close(() => resolve()))

/** A game that listens on `listen` after it has said that it is ready, and on `later` when a line is typed. */
function listener(options: {
  readonly listen?: number | string
  readonly later?: number
  readonly says?: string
  readonly host?: string
}) {
  const { listen, later, says = 'ready', host = 'host: "127.0.0.1"' } = options
  const open = (port: number | string) => `require("net").createServer().listen({ port: ${port}, ${host} })`
  const script = [
    `console.log(${JSON.stringify(says)})`,
    listen === undefined ? '' : `setTimeout(() => ${open(listen)}.on("error", () => {}), 400)`,
    `process.stdin.once("data", () => { ${later === undefined ? '' : open(later)} })`,
    'setInterval(() => {}, 1e6)',
  ]
  return `exec "$PANEL_NODE" -e '${script.filter(Boolean).join(';')}'`
}

const primary = (port: number): ServerSpec['ports'] => [{ ip: '127.0.0.1', port, primary: true }]

describe('configuration files', () => {
  const set = [{ key: 'server-port', value: '{{SERVER_PORT}}' }]
  const properties = { path: 'conf/deep/server.properties', parser: 'properties', create: true, set } as const

  it('have the values of this start before the program runs, whatever their size', async () => {
    const id = 'srv_conf'
    const port = await quietPort()
    const large = { path: 'large.yml', parser: 'yaml', create: false, set: [{ key: 'port', value: port }] } as const
    const startup = `cat conf/deep/server.properties; tail -n 1 large.yml; ls -ld conf | cut -c1-10; echo ready; ${WAITS}`
    const configFiles = [properties, large].map((file) => ({ ...file, set: [...file.set] }))
    const files = { 'large.yml': `${'# comment\n'.repeat(30_000)}port: 1\n` }
    await agent.begin(id, { startup, configFiles, ports: primary(port) }, files)
    await agent.reaches(id, 'running')
    const said = await texts({ serverId: id, files: '', state: join(agent.dataDir, 'state', id) })
    expect(said).toEqual(expect.arrayContaining([`server-port=${port}`, `port: ${port}`, 'drwxr-xr-x']))
  })

  it('that cannot be followed stop the start with the reason, and stay as they are', async () => {
    const id = 'srv_broken'
    const file = { path: 'server.json', parser: 'json', create: true, set: [...set] } as const
    const refused = await agent.begin(
      id,
      { configFiles: [{ ...file, set: [...file.set] }] },
      { 'server.json': '{"a": ' },
    )
    expect(refused).toMatchObject({ ok: false, error: { code: 'SPAWN_FAILED' } })
    const { reason } = await agent.reaches(id, 'offline')
    expect(reason).toMatch(/^The configuration file server\.json is not valid JSON/)
    expect(await readFile(join(agent.dataDir, 'servers', id, 'server.json'), 'utf8')).toBe('{"a": ')
  })
})

describe('an ordered stop', () => {
  it('waits for a game behind a script until it has saved', async () => {
    const cases = {
      srv_script: { startup: 'sh ./run.sh', stop: byTerm(30_000) },
      srv_between: { startup: 'echo pre; sh ./game.sh; echo post', stop: byTerm(30_000) },
    }
    const files = { 'game.sh': SAVES, 'run.sh': 'sh ./game.sh\n' }
    for (const [id, spec] of Object.entries(cases)) await agent.begin(id, spec, files)
    for (const id of Object.keys(cases)) await agent.reaches(id, 'running')
    for (const id of Object.keys(cases)) {
      expect(await agent.order(id, stop())).toMatchObject({ ok: true })
      const report = await agent.reaches(id, 'offline')
      expect(existsSync(join(agent.dataDir, 'servers', id, 'saved')), id).toBe(true)
      expect(report).toMatchObject({ reason: null, lastExit: { expected: true, cause: 'stopped' } })
      expect(agent.powers(id)).toEqual(['starting', 'running', 'stopping', 'offline'])
    }
  })

  it('goes on to SIGTERM and to SIGKILL, each in its time, and says how far it had to go', async () => {
    const [id, mild] = ['srv_kill', 'srv_term']
    await agent.begin(id, { startup: IGNORES, stop: { type: 'command', value: 'quit', timeoutMs: 120_000 } })
    await agent.begin(mild, {
      startup: `echo ready; ${WAITS}`,
      stop: { type: 'command', value: 'quit', timeoutMs: 120_000 },
    })
    await agent.reaches(mild, 'running')
    const { pid } = await agent.reaches(id, 'running')
    const orders = [agent.send(id, stop()), agent.send(mild, stop())]
    await agent.reaches(id, 'stopping')
    await agent.reaches(mild, 'stopping')
    agent.clock.pass(120_000)
    const term = await agent.reaches(mild, 'offline')
    const first = 'It did not stop within 120 s'
    expect(term).toMatchObject({ reason: `${first} and was ended with SIGTERM`, lastExit: { cause: 'stop-sigterm' } })
    expect(await isAlive(pid ?? 0)).toBe(true)
    agent.clock.pass(10_000)
    for (const order of orders) expect(await agent.peer.done(order)).toMatchObject({ ok: true })
    expect(await agent.reaches(id, 'offline')).toMatchObject({
      reason: `${first}, nor after SIGTERM, and was ended with SIGKILL`,
      lastExit: { signal: 'SIGKILL', expected: true, cause: 'stop-sigkill' },
      crash: { count: 0, crashed: false },
    })
    expect(await isAlive(pid ?? 0)).toBe(false)
  })

  it('goes by the rule that the run was started with, whatever was edited since', async () => {
    const id = 'srv_edited'
    const spec = { startup: 'exec sh ./game.sh', stop: byTerm(30_000) }
    await agent.begin(id, spec, { 'game.sh': SAVES })
    await agent.reaches(id, 'running')
    const edited = { ...spec, stop: { type: 'command', value: 'stop', timeoutMs: 0 } } as const
    await agent.order(id, (generation) => ({ op: 'apply', spec: gameSpec(id, generation, edited) }))
    const restart = await agent.order(id, (generation) => ({ op: 'restart', spec: gameSpec(id, generation, edited) }))
    expect(restart).toMatchObject({ ok: true })
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
    expect(await agent.reaches(id, 'running')).toMatchObject({ lastExit: { cause: 'stopped' } })
    // The edit counts now.
    expect(await agent.order(id, stop())).toMatchObject({ ok: true })
    expect((await agent.reaches(id, 'offline')).lastExit).toMatchObject({ cause: 'stop-sigterm' })
  })

  it('reaches a game that its script has put into a session of its own', async () => {
    const id = 'srv_session'
    await agent.begin(
      id,
      { startup: 'setsid -w sh ./game.sh; echo after', stop: byTerm(600_000) },
      { 'game.sh': SAVES },
    )
    await agent.reaches(id, 'running')
    expect(await agent.order(id, stop())).toMatchObject({ ok: true })
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
    expect((await agent.reaches(id, 'offline')).lastExit).toMatchObject({ cause: 'stopped' })
  })

  it('that cannot be typed goes on to SIGTERM at once, and says so', async () => {
    const id = 'srv_lines'
    const rule = { type: 'command', value: 'save\nstop', timeoutMs: 600_000 } as const
    await agent.begin(id, { startup: 'exec sh ./game.sh', stop: rule }, { 'game.sh': SAVES })
    await agent.reaches(id, 'running')
    expect(await agent.order(id, stop())).toMatchObject({ ok: true })
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
    expect(await agent.reaches(id, 'offline')).toMatchObject({
      reason: expect.stringMatching(/^What stops it did not reach it \(.*\), and it was ended with SIGTERM$/),
      lastExit: { cause: 'stop-sigterm', expected: true },
    })
  })

  it('takes the time that the order gives in place of the rule', async () => {
    const id = 'srv_grace'
    await agent.begin(id, {
      startup: `echo ready; ${WAITS}`,
      stop: { type: 'command', value: 'quit', timeoutMs: 1000 },
    })
    const { pid } = await agent.reaches(id, 'running')
    const order = agent.send(id, stop(300_000))
    await agent.reaches(id, 'stopping')
    agent.clock.pass(250_000)
    await agent.type(id, 'still there')
    expect([await isAlive(pid ?? 0), agent.powers(id).at(-1)]).toEqual([true, 'stopping'])
    agent.clock.pass(50_000)
    expect(await agent.peer.done(order)).toMatchObject({ ok: true })
    expect((await agent.reaches(id, 'offline')).reason).toContain('within 300 s')
  })

  it('counts the time in which the agent was away', async () => {
    const id = 'srv_away'
    await agent.begin(id, {
      startup: `echo ready; ${WAITS}`,
      stop: { type: 'command', value: 'quit', timeoutMs: 600_000 },
    })
    await agent.reaches(id, 'running')
    await agent.peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    const order = agent.send(id, stop())
    await agent.peer.until('the stop command', () => agent.peer.lines(id).some(([, , , text]) => text === 'quit'))
    // By the answer to a later line the agent knows that the game has the earlier one.
    await agent.type(id, 'more')
    await agent.stop()
    agent.clock.pass(595_000)
    await agent.start()
    expect(
      agent.peer
        .of('snapshot')
        .at(-1)
        ?.servers.find(({ serverId }) => serverId === id)?.power,
    ).toBe('stopping')
    agent.clock.pass(6000)
    expect(await agent.peer.done(order)).toMatchObject({ ok: true })
    expect((await agent.reaches(id, 'offline')).lastExit).toMatchObject({ cause: 'stop-sigterm', expected: true })
  })
})

describe('a typed stop command', () => {
  it('makes a server stopping, and a start that comes then follows the end', async () => {
    const id = 'srv_typed'
    const startup =
      'echo ready; while read -r line; do [ "$line" = stop ] && sleep 1 && echo all > saved && exit 0; done'
    await agent.begin(id, { startup, restart: NEVER, stop: { type: 'command', value: 'stop', timeoutMs: 60_000 } })
    const { pid } = await agent.reaches(id, 'running')
    await agent.type(id, 'stop')
    await agent.reaches(id, 'stopping')
    expect(
      await agent.order(id, (generation) => ({ op: 'start', spec: gameSpec(id, generation, { startup }) })),
    ).toMatchObject({
      ok: true,
      noop: false,
    })
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
    await agent.peer.report(id, 'the next run', (report) => report.power === 'running' && report.pid !== pid)
    expect(agent.powers(id)).toEqual(['starting', 'running', 'stopping', 'offline', 'starting', 'running'])
  })

  it('that is not heeded leaves the server running once its time is over', async () => {
    const id = 'srv_deaf'
    await agent.begin(id, {
      startup: `echo ready; ${WAITS}`,
      stop: { type: 'command', value: 'stop', timeoutMs: 60_000 },
    })
    await agent.reaches(id, 'running')
    await agent.type(id, 'stop')
    await agent.reaches(id, 'stopping')
    agent.clock.pass(61_000)
    await agent.reaches(id, 'running')
    expect(agent.powers(id)).toEqual(['starting', 'running', 'stopping', 'running'])
  })

  it('of a game behind a script is followed by SIGTERM when its time is over, and the end says so', async () => {
    const id = 'srv_fifo'
    const game = `trap 'sleep 1; echo all > saved; exit 0' TERM; while read -r line; do :; done; ${WAITS}`
    const script =
      'mkfifo in; sh ./game.sh < in & exec 3> in; echo ready; while read -r l; do [ "$l" = stop ] && exit 0; done'
    const rule = { type: 'command', value: 'stop', timeoutMs: 500 } as const
    await agent.begin(id, { startup: script, restart: NEVER, stop: rule }, { 'game.sh': game })
    await agent.reaches(id, 'running')
    await agent.type(id, 'stop')
    expect(await agent.reaches(id, 'offline')).toMatchObject({
      reason: 'It did not stop in time after its stop command was typed, and was ended with SIGTERM',
      lastExit: { cause: 'stop-sigterm', expected: true, code: 0 },
    })
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
  })
})

describe('a server', () => {
  it('that says a lot before its ready line leaves no listeners behind', async () => {
    const id = 'srv_talks'
    await agent.begin(id, { startup: `for i in $(seq 30); do echo $i; sleep 0.05; done; echo ready; ${WAITS}` })
    await agent.reaches(id, 'running')
    expect(warnings).toEqual([])
  })

  it('is running only when a process of it listens on its port', async () => {
    const [right, wrong, taken, never] = ['srv_right', 'srv_wrong', 'srv_taken', 'srv_never']
    const ports = [
      await quietPort(),
      await quietPort(),
      await quietPort(),
      await quietPort(),
      await quietPort(),
    ] as const
    const listens = 'tcp' as const
    await agent.begin(right, {
      startup: listener({ listen: 'process.env.SERVER_PORT' }),
      listens,
      ports: primary(ports[0]),
    })
    await agent.begin(wrong, { startup: listener({ listen: ports[2] }), listens, ports: primary(ports[1]) })
    await agent.begin(taken, { startup: listener({ listen: ports[3] }), listens, ports: primary(ports[3]) })
    const other = await listenOn(ports[3])
    await agent.begin(never, {
      startup: listener({ listen: ports[4], says: 'hello' }),
      listens,
      ports: primary(ports[4]),
    })
    const running = await agent.reaches(right, 'running')
    expect(running.reason).toBeNull()
    // Before that the game has not said that it is ready either, from when on it has some seconds.
    await until('the game listens', () => isListening(ports[2]))
    agent.clock.pass(6000)
    const reasonOf = (id: string, as: RegExp) =>
      agent.peer.report(id, `the reason of ${id}`, ({ reason }) => as.test(reason ?? ''))
    const elsewhere = `TCP 127.0.0.1:${ports[1]}; it listens on TCP 127.0.0.1:${ports[2]}`
    const ofWrong = await reasonOf(wrong, new RegExp(`^No process of the server listens on ${elsewhere}$`))
    expect(ofWrong.power).toBe('starting')
    await reasonOf(taken, /; its port \(TCP\) is in use by another program; it listens on no port$/)
    expect(agent.peer.reports(never).at(-1)).toMatchObject({ power: 'starting', reason: null })
    agent.clock.pass(120_000)
    const waits = `Its ready line has not come within 2 minutes; it listens on TCP 127.0.0.1:${ports[4]}`
    // The game opens its port in its own time.
    await agent.passUntil('its reason', 10_000, () => agent.peer.reports(never).at(-1)?.reason === waits)
    for (const id of [wrong, taken, never]) expect(agent.powers(id)).toEqual(['starting'])
    await closed(other)
  })

  it('is reached by IPv4 on the wildcard of IPv6 only where that takes it', async () => {
    const [both, alone] = ['srv_both', 'srv_alone']
    const ports = [await quietPort(), await quietPort()] as const
    const game = (port: number, host: string): Partial<ServerSpec> => {
      return { startup: listener({ listen: port, host }), listens: 'tcp', ports: primary(port) }
    }
    await agent.begin(both, game(ports[0], 'host: "::"'))
    await agent.begin(alone, game(ports[1], 'host: "::", ipv6Only: true'))
    expect((await agent.reaches(both, 'running')).reason).toBeNull()
    const reason = `No process of the server listens on TCP 127.0.0.1:${ports[1]}; it listens on TCP [::]:${ports[1]}`
    await agent.passUntil('its reason', 10_000, () => agent.peer.reports(alone).at(-1)?.reason === reason)
    expect(agent.powers(alone)).toEqual(['starting'])
  })

  it('that is running says when nothing of it listens on its port, and when something does again', {
    tags: ['long'],
  }, async () => {
    const [said, unsaid] = ['srv_said', 'srv_unsaid']
    const ports = [await quietPort(), await quietPort()] as const
    await agent.begin(unsaid, { startup: listener({ later: ports[0] }), ports: primary(ports[0]) })
    await agent.begin(said, { startup: listener({ listen: ports[1] }), listens: 'none', ports: primary(ports[1]) })
    await agent.reaches(unsaid, 'running')
    await agent.reaches(said, 'running')
    agent.clock.pass(120_000)
    agent.clock.pass(6000)
    const missing = await agent.peer.report(unsaid, 'a reason', ({ reason }) => reason !== null)
    expect(missing).toMatchObject({
      power: 'running',
      reason: `No process of the server listens on TCP or UDP 127.0.0.1:${ports[0]}; it listens on no port`,
    })
    await agent.type(unsaid, 'listen')
    // The game opens its port in its own time: minutes pass until the look finds it.
    await agent.passUntil('no reason', 60_000, () => agent.peer.reports(unsaid).at(-1)?.reason === null)
    expect(agent.peer.reports(said).every(({ reason }) => reason === null)).toBe(true)
  })

  it('waits for a port that only connections hold, counts nothing, and gives way to a stop', async () => {
    const peer = await listenOn(0)
    const accepted = new Promise<void>((resolve) => peer.once('connection', () => resolve()))
    const client = connect({ port: portOf(peer), host: '127.0.0.1' })
    await accepted
    const port = client.localPort ?? 0
    const [id, stopped, udp] = ['srv_port', 'srv_port_stop', 'srv_port_udp']
    const game = { startup: `echo ready; ${WAITS}`, ports: primary(port), restart: NEVER, stop: byTerm(10_000) }
    const first = agent.send(id, (generation) => ({ op: 'start', spec: gameSpec(id, generation, game) }))
    const waiting = await agent.reaches(id, 'starting')
    expect(waiting).toMatchObject({ pid: null, crash: { count: 0, crashed: false } })
    expect(waiting.reason).toContain(`Port 127.0.0.1:${port} (TCP) is still held by connections`)
    expect(await agent.begin(udp, { ...game, listens: 'udp', startup: 'echo hello; sleep 1000' })).toMatchObject({
      ok: true,
    })
    const second = agent.send(stopped, (generation) => ({ op: 'start', spec: gameSpec(stopped, generation, game) }))
    await agent.reaches(stopped, 'starting')
    expect(await agent.order(stopped, stop())).toMatchObject({ ok: true })
    expect(await agent.peer.done(second)).toMatchObject({ ok: false, error: { code: 'INTERRUPTED' } })
    expect(agent.peer.reports(stopped).at(-1)).toMatchObject({ power: 'offline', reason: null })
    client.resetAndDestroy()
    expect(await agent.peer.done(first)).toMatchObject({ ok: true })
    expect(await agent.reaches(id, 'running')).toMatchObject({ reason: null, crash: { count: 0 } })
    expect(agent.powers(id)).toEqual(['starting', 'running'])
    await closed(peer)
  })

  it('is refused after 75 seconds when connections keep its port', async () => {
    const peer = await listenOn(0)
    const accepted = new Promise<void>((resolve) => peer.once('connection', () => resolve()))
    const client = connect({ port: portOf(peer), host: '127.0.0.1' })
    await accepted
    const id = 'srv_port_kept'
    const order = agent.send(id, (generation) => ({
      op: 'start',
      spec: gameSpec(id, generation, { ports: primary(client.localPort ?? 0) }),
    }))
    await agent.reaches(id, 'starting')
    agent.clock.pass(76_000)
    expect(await agent.peer.done(order)).toMatchObject({ ok: false, error: { code: 'PORT_IN_USE' } })
    expect((await agent.reaches(id, 'offline')).reason).toContain('still held by connections')
    client.resetAndDestroy()
    await closed(peer)
  })
})

describe('an end', () => {
  interface End {
    readonly title: string
    readonly startup: string
    readonly spec?: Partial<ServerSpec>
    readonly line?: string
    readonly kill?: true
    readonly power?: 'starting'
    readonly expected: boolean
    readonly cause: string
    readonly reason: string | null | RegExp
  }
  const ends: readonly End[] = [
    {
      title: 'exit-9',
      startup: 'echo ready; exit 9',
      expected: false,
      cause: 'exit-code',
      reason: 'The program ended with exit code 9',
    },
    {
      title: 'segv',
      startup: 'echo ready; kill -SEGV $$',
      expected: false,
      cause: 'signal',
      reason: 'The program was ended by SIGSEGV',
    },
    { title: 'finished', startup: 'echo ready; exit 0', expected: true, cause: 'finished', reason: null },
    {
      title: 'typed',
      startup: 'echo ready; read -r line; exit 4',
      line: 'stop',
      expected: true,
      cause: 'stop-command',
      reason: null,
    },
    { title: 'kill', startup: `echo ready; ${WAITS}`, kill: true, expected: true, cause: 'killed', reason: null },
    {
      title: 'memory',
      startup:
        'echo ready; read -r line; exec "$PANEL_NODE" -e "const a = []; for (;;) a.push(Buffer.alloc(1048576, 1))"',
      line: 'eat',
      spec: { limits: { memoryMb: 64, swapMb: 0, cpuCores: 2, diskMb: 100, pids: 64 } },
      expected: false,
      cause: 'out-of-memory',
      reason: /^It needed more than its 64 MiB of memory and was ended/,
    },
    {
      title: 'given-up',
      startup: 'echo ready; exit 7',
      spec: { restart: { policy: 'on-failure', maxCrashes: 1 } },
      expected: false,
      cause: 'exit-code',
      reason: 'The program ended with exit code 7; 1 crash in 10 minutes, it is not started again',
    },
    {
      title: 'always',
      startup: 'echo ready; exit 0',
      spec: { restart: { policy: 'always', maxCrashes: 5 } },
      power: 'starting',
      expected: true,
      cause: 'finished',
      reason: /^The program ended by itself with exit code 0; next start in [23] s$/,
    },
  ]

  it.each(ends)('has a cause and a sentence: $title', async ({ title, startup, spec, line, kill, power, ...end }) => {
    const id = `srv_end_${title}`
    await agent.begin(id, { startup, restart: NEVER, ...spec })
    if (line !== undefined || kill === true) await agent.reaches(id, 'running')
    if (line !== undefined) await agent.type(id, line)
    if (kill === true) await agent.order(id, () => ({ op: 'kill' }))
    const report = await agent.peer.passing(id, 'the end', ({ lastExit }) => lastExit !== null)
    const { cause, expected, reason } = end
    expect(report).toMatchObject({
      power: power ?? 'offline',
      pid: null,
      reason: reason instanceof RegExp ? expect.stringMatching(reason) : reason,
      lastExit: { cause, expected },
      crash: { count: expected ? 0 : 1, crashed: !expected },
    })
    expect(report.lastExit?.message).toBeTruthy()
    if (power === 'starting') await agent.order(id, stop())
    expect(await agent.reaches(id, 'offline')).toMatchObject({ crash: { nextRestartMs: null } })
  })

  it('under the policy always is followed by a start, and by a stop when one is ordered', async () => {
    const id = 'srv_always'
    await agent.begin(id, { startup: 'echo ready; read -r line; exit 0', restart: { policy: 'always', maxCrashes: 1 } })
    for (let round = 0; round < 2; round++) {
      const { pid } = await agent.reaches(id, 'running')
      await agent.type(id, 'end')
      await agent.peer.report(id, 'the pause', (report) => report.power === 'starting' && report.pid === null)
      agent.clock.pass(10_000)
      await agent.peer.report(id, 'running again', (now) => now.power === 'running' && now.pid !== pid)
    }
    expect(agent.peer.reports(id).every(({ crash }) => crash.count === 0 && !crash.crashed)).toBe(true)
    await agent.type(id, 'end')
    await agent.peer.report(id, 'the pause', (report) => report.power === 'starting' && report.pid === null)
    await agent.stop()
    await agent.start()
    const found = agent.peer
      .of('snapshot')
      .at(-1)
      ?.servers.find(({ serverId }) => serverId === id)
    expect(['starting', 'running']).toContain(found?.power)
    expect(await agent.order(id, stop())).toMatchObject({ ok: true })
    await agent.reaches(id, 'offline')
  })

  it('of a program in the background comes with its last process, where the node holds a run together', async () => {
    const [id, other] = ['srv_daemon', 'srv_daemon_ends']
    const script = `setsid sh -c 'echo $$ > pid; ${SAVES.replaceAll("'", '"')}' & while [ ! -s pid ]; do sleep 0.05; done; exit 0`
    const ending = 'setsid sh -c "echo ready; while [ ! -e go ]; do sleep 0.05; done" & exit 0'
    await agent.begin(id, { startup: script, stop: byTerm(30_000), restart: NEVER })
    await agent.begin(other, { startup: ending, restart: NEVER })
    if (process.getuid?.() !== 0) {
      expect((await agent.reaches(id, 'offline')).lastExit).toMatchObject({ cause: 'background', expected: false })
      return
    }
    await agent.peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    await agent.reaches(id, 'running')
    await agent.peer.until('the remark', () =>
      agent.peer.lines(id).some(([, , , text]) => text.includes('went into the background')),
    )
    expect(agent.powers(id)).toEqual(['starting', 'running'])
    const pid = Number(await readFile(join(agent.dataDir, 'servers', id, 'pid'), 'utf8'))
    await agent.peer.report(id, 'its living process', (report) => report.pid === pid)
    await agent.stop()
    expect(await runningServers(agent.dataDir)).toContain(id)
    await agent.start()
    const found = agent.peer
      .of('snapshot')
      .at(-1)
      ?.servers.find(({ serverId }) => serverId === id)
    expect(found).toMatchObject({ power: 'running', pid })
    expect(await agent.order(id, stop())).toMatchObject({ ok: true })
    expect(await runningServers(agent.dataDir)).not.toContain(id)
    expect(existsSync(join(agent.dataDir, 'servers', id, 'saved'))).toBe(true)
    expect(await agent.reaches(id, 'offline')).toMatchObject({
      reason: null,
      lastExit: { cause: 'stopped', expected: true },
    })
    await agent.reaches(other, 'running')
    await writeFile(join(agent.dataDir, 'servers', other, 'go'), '')
    expect(await agent.reaches(other, 'offline')).toMatchObject({
      crash: { crashed: true, count: 1 },
      lastExit: { code: null, cause: 'unknown', expected: false },
    })
  })

  it('is counted with a failed start after it, and forgiven by an order', async () => {
    const id = 'srv_counted'
    const port = await quietPort()
    const spec = { startup: 'echo ready; read -r line; exit 3', ports: primary(port) }
    await agent.begin(id, spec)
    await agent.reaches(id, 'running')
    await agent.type(id, 'end')
    await agent.peer.report(id, 'crashed', ({ crash }) => crash.count === 1 && crash.crashed)
    const server = await listenOn(port)
    agent.clock.pass(5000)
    const twice = await agent.peer.report(id, 'a failed start', ({ crash }) => crash.count === 2)
    expect(twice).toMatchObject({ power: 'offline', crash: { crashed: true } })
    expect(twice.reason).toMatch(/\(TCP\) is in use by another program; next start in \d+ s$/)
    await closed(server)
    expect(await agent.begin(id, spec)).toMatchObject({ ok: true })
    expect(await agent.reaches(id, 'running')).toMatchObject({ crash: { count: 0, crashed: false } })
    // None of these moments looked like a server that is given up.
    const seen = agent.peer.reports(id).filter(({ power, crash }) => power === 'offline' && crash.crashed)
    expect(seen.every(({ crash }) => crash.nextRestartMs !== null)).toBe(true)
  })
})
