import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { OrphansResult } from '../../src/shared/protocol/node.ts'
import { quietPort } from '../ports.ts'
import { AgentStage, gameSpec, isAlive } from './agent-stage.ts'

let stage: AgentStage
const used = new Set<string>()

beforeAll(async () => {
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 60_000)

afterAll(async () => {
  await stage.leave([...used])
}, 60_000)

function serverNamed(name: string): string {
  used.add(`srv_${name}`)
  return `srv_${name}`
}

describe('the power of a server', () => {
  it('says hello with its credentials, then sends a snapshot', () => {
    expect(stage.peer.requests[0]).toEqual({ id: 'node_test', key: 'pnk_test', protocol: 'panel-agent.v1' })
    const [hello] = stage.peer.of('hello')
    expect(hello?.runtimes[0]).toMatchObject({ name: 'process', ok: true })
    expect(stage.peer.of('snapshot')[0]?.servers).toEqual([])
  })

  it('starts, becomes running at its ready line, and stops by its stop command', async () => {
    const id = serverNamed('basic')
    const done = await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    expect(done).toMatchObject({ ok: true, noop: false })
    const running = await stage.peer.report(id, 'running', (report) => report.power === 'running')
    expect(running.pid).not.toBeNull()
    expect(await isAlive(running.pid ?? 0)).toBe(true)
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    await stage.peer.until('the first line', () =>
      stage.peer.lines(id).some(([, , stream, text]) => stream === 'stdout' && text.startsWith('hello from 0193d5a0')),
    )
    const stopped = await stage.peer.order(id, 2, { op: 'stop' })
    expect(stopped).toMatchObject({ ok: true, noop: false })
    const offline = await stage.peer.report(id, 'offline', (report) => report.power === 'offline')
    expect(offline.lastExit).toMatchObject({ code: 0, expected: true })
    expect(offline.crash.crashed).toBe(false)
    expect(await isAlive(running.pid ?? 0)).toBe(false)
    expect(stage.peer.reports(id).map(({ power }) => power)).toEqual(
      expect.arrayContaining(['starting', 'running', 'stopping', 'offline']),
    )
  })

  it('types no line whose sender has been answered into a game that reads late', async () => {
    const id = serverNamed('late')
    const startup =
      'echo ready; until [ -e go ]; do sleep 0.05; done; while IFS=- read -r number rest; do echo "got $number"; done'
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup }) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    // A pipe holds 64 KiB. The daemon waits for 5 s.
    const numbers = Array.from({ length: 20 }, (_, index) => index)
    const typed = numbers.map(async (number) => {
      const lines = [`${number}-${'x'.repeat(4080)}`]
      return (await stage.peer.request({ op: 'console.input', serverId: id, lines }, 5000)).error
    })
    const errors = await Promise.all(typed)
    const refused = errors.filter((error) => error !== null)
    expect(refused.length).toBeGreaterThan(1)
    for (const error of refused) expect(error).toMatchObject({ message: 'The program does not read its input' })
    await writeFile(join(stage.dataDir, 'servers', id, 'go'), '')
    const got = (): string[] => stage.peer.lines(id).flatMap(([, , , text]) => (text.startsWith('got ') ? [text] : []))
    expect((await stage.peer.request({ op: 'console.input', serverId: id, lines: ['last-'] })).error).toBeNull()
    await stage.peer.until('the last line', () => got().includes('got last'))
    expect(got().slice(0, -1)).toEqual(numbers.filter((n) => errors[n] === null).map((n) => `got ${n}`))
  })

  it('takes a start of a running server and a stop of a stopped one as done already', async () => {
    const id = serverNamed('noop')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    expect(await stage.peer.order(id, 2, { op: 'start', spec: gameSpec(id, 2) })).toMatchObject({
      ok: true,
      noop: true,
    })
    await stage.peer.order(id, 3, { op: 'kill' })
    expect(await stage.peer.order(id, 4, { op: 'stop' })).toMatchObject({ ok: true, noop: true })
  })

  it('leaves an older specification aside, and refuses orders of an older generation', async () => {
    const id = serverNamed('specs')
    const apply = (generation: number, of: number, name: string) =>
      stage.peer.order(id, generation, { op: 'apply', spec: gameSpec(id, of, { name }) })
    const known = async () => (await stage.peer.request({ op: 'orphans.describe', serverId: id })).result
    expect(await apply(3, 3, 'three')).toMatchObject({ ok: true })
    expect(await apply(5, 2, 'two')).toMatchObject({ ok: true })
    expect(await known()).toMatchObject({ spec: { name: 'three', generation: 3 }, report: { generation: 5 } })
    expect((await apply(4, 4, 'four')).error?.code).toBe('STALE_GENERATION')
    expect(await known()).toMatchObject({ spec: { name: 'three' }, report: { generation: 5 } })
    expect(await apply(6, 6, 'six')).toMatchObject({ ok: true })
    expect(await known()).toMatchObject({ spec: { name: 'six', generation: 6 }, report: { generation: 6 } })
  })

  it('names servers before left-over folders, beyond one answer as well, and each folder when it is asked for', async () => {
    const id = serverNamed('znamed')
    await stage.peer.order(id, 1, { op: 'apply', spec: gameSpec(id, 1, { name: 'named' }) })
    const folders = Array.from({ length: 510 }, (_, number) => `srv_left${String(number).padStart(3, '0')}`)
    await Promise.all(folders.map((name) => mkdir(join(stage.dataDir, 'servers', name))))
    const list = async (known: string[]) =>
      OrphansResult.parse((await stage.peer.request({ op: 'orphans.list', known })).result)
    const others = [...used].filter((name) => name !== id)
    const first = await list(others)
    expect([first.orphans.length, first.more, first.orphans[0]?.serverId]).toEqual([500, true, id])
    const rest = await list([...others, ...first.orphans.map(({ serverId }) => serverId)])
    expect([rest.orphans.map(({ serverId }) => serverId), rest.more]).toEqual([folders.slice(499), false])
    const describe = async (serverId: string) => (await stage.peer.request({ op: 'orphans.describe', serverId })).result
    expect(await describe('srv_left505')).toMatchObject({ spec: null, orphan: { name: null, hasFiles: true } })
    expect(await describe('srv_nobody')).toEqual({ spec: null, report: null, orphan: null })
  })

  it('does not start by a line in which the place of a value cannot be known, and says what to write', async () => {
    const id = serverNamed('line')
    const spec = gameSpec(id, 1, { startup: `cat <<E'O'F\n{{X}}\nEOF`, env: { X: 'a b' } })
    const { error } = await stage.peer.order(id, 1, { op: 'start', spec })
    expect(error).toMatchObject({
      code: 'BAD_REQUEST',
      message: expect.stringContaining('one plain word, as in <<EOF'),
    })
    await stage.peer.report(id, 'stopped', ({ power, reason }) => power === 'offline' && reason === error?.message)
  })

  it('gives a game its variables, whatever their names are in the chain that starts it', async () => {
    const id = serverNamed('names')
    const env = { given: '1', panel_complete: '2', word: '3', out: '4' }
    const startup = '[ "$given$panel_complete$word$out" = 1234 ] && echo ready; read -r line'
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup, env }) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
  })

  it('restarts as one order with a new process', async () => {
    const id = serverNamed('restart')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    const first = await stage.peer.report(id, 'running', (report) => report.power === 'running')
    const done = await stage.peer.order(id, 2, { op: 'restart', spec: gameSpec(id, 2) })
    expect(done).toMatchObject({ ok: true, noop: false })
    const second = await stage.peer.report(
      id,
      'running again',
      ({ power, pid }) => power === 'running' && pid !== first.pid,
    )
    expect(second.pid).not.toBe(first.pid)
    expect(await isAlive(first.pid ?? 0)).toBe(false)
  })

  it('kills at once, and a kill is no crash', async () => {
    const id = serverNamed('kill')
    const spec = gameSpec(id, 1, { startup: 'trap "" TERM INT; echo ready; while :; do sleep 1; done' })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    expect(await stage.peer.order(id, 2, { op: 'kill' })).toMatchObject({ ok: true, noop: false })
    const offline = await stage.peer.report(id, 'offline', (report) => report.power === 'offline')
    expect(offline.lastExit).toMatchObject({ signal: 'SIGKILL', expected: true })
    expect(offline.crash).toMatchObject({ count: 0, crashed: false })
  })

  it('carries out kills of games that end by themselves at that very moment', { tags: ['long'] }, async () => {
    const ids = Array.from({ length: 16 }, (_, i) => serverNamed(`dying-${i}`))
    const startup = 'echo ready; read -r line; exit 3'
    for (const generation of [1, 3, 5]) {
      const start = (id: string) =>
        stage.peer.order(id, generation, { op: 'start', spec: gameSpec(id, generation, { startup }) })
      await Promise.all(ids.map(start))
      // Many at once, so that some end while their kill is written down.
      const typed = ids.map((serverId) => stage.peer.request({ op: 'console.input', serverId, lines: ['end'] }))
      const kills = await Promise.all(ids.map((id) => stage.peer.order(id, generation + 1, { op: 'kill' })))
      expect(kills.filter(({ ok }) => !ok)).toEqual([])
      await Promise.allSettled(typed)
      // Also of those that were counted as crashed in between: nobody starts them again.
      const atRest = (id: string) =>
        stage.peer.report(id, 'at rest', ({ power, crash }) => power === 'offline' && crash.nextRestartMs === null)
      await Promise.all(ids.map(atRest))
    }
  })

  it('lets a kill end a stop that waits', async () => {
    const id = serverNamed('killstop')
    const spec = gameSpec(id, 1, {
      startup: 'trap "" TERM; echo ready; while :; do sleep 1; done',
      stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 600_000 },
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    const stopId = stage.peer.nextId()
    stage.peer.send({ type: 'command', id: stopId, serverId: id, generation: 2, command: { op: 'stop' } })
    await stage.peer.report(id, 'stopping', (report) => report.power === 'stopping')
    expect(await stage.peer.order(id, 3, { op: 'kill' })).toMatchObject({ ok: true })
    expect(await stage.peer.done(stopId)).toMatchObject({ ok: true })
  })

  it('goes on to SIGTERM when the stop rule has no effect', async () => {
    const id = serverNamed('escalate')
    const spec = gameSpec(id, 1, {
      startup: 'echo ready; while read -r line; do :; done',
      stop: { type: 'command', value: 'quit', timeoutMs: 500 },
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.report(id, 'running', (report) => report.power === 'running')
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const offline = await stage.peer.report(id, 'offline', (report) => report.power === 'offline')
    expect(offline.lastExit).toMatchObject({ signal: 'SIGTERM', expected: true })
  })

  it('refuses a taken port, and does not name who has it', async () => {
    const id = serverNamed('port')
    const port = await quietPort()
    const { createServer } = await import('node:net')
    const holder = createServer().listen(port, '127.0.0.1')
    const spec = gameSpec(id, 1, { ports: [{ ip: '127.0.0.1', port, primary: true }] })
    const done = await stage.peer.order(id, 1, { op: 'start', spec })
    holder.close()
    expect(done.error).toMatchObject({ code: 'PORT_IN_USE' })
    expect(done.error?.message).toContain('in use by another program')
    expect(done.error?.message).not.toContain(String(process.pid))
    const offline = await stage.peer.report(id, 'offline', (report) => report.power === 'offline')
    expect(offline.reason).toContain(String(port))
    expect((await stage.peer.order(id, 2, { op: 'start', spec: { ...spec, generation: 2 } })).ok).toBe(true)
  })

  it('refuses an address that this machine does not have, and a suspended server', async () => {
    const id = serverNamed('address')
    const spec = gameSpec(id, 1, { ports: [{ ip: '192.0.2.1', port: 4000, primary: true }] })
    expect((await stage.peer.order(id, 1, { op: 'start', spec })).error?.code).toBe('ADDRESS_UNAVAILABLE')
    const suspended = gameSpec(id, 2, { suspended: true })
    expect((await stage.peer.order(id, 2, { op: 'start', spec: suspended })).error?.code).toBe('SUSPENDED')
  })

  it('hands variables to the game as values and never as code', async () => {
    const id = serverNamed('env')
    const marker = '$(echo owned); `echo owned`'
    const spec = gameSpec(id, 1, {
      startup:
        'printf "%s|%s|%s\\n" "{{MOTD}}" "{{server.build.default.port}}" "{{NOBODY}}"; env; echo ready; read -r line',
      env: { MOTD: marker },
      ports: [{ ip: '127.0.0.1', port: await quietPort(), primary: true }],
    })
    await stage.peer.order(id, 1, { op: 'start', spec })
    await stage.peer.request({ op: 'console.subscribe', serverId: id, tail: 100 })
    const lines = await stage.peer.until('ready', () => {
      const seen = stage.peer.lines(id).map(([, , , text]) => text)
      return seen.includes('ready') && seen
    })
    expect(lines).toContain(`${marker}|${spec.ports[0]?.port}|`)
    expect(lines.some((line) => line.startsWith('PANEL_TEST') || line.startsWith('npm_'))).toBe(false)
    await stage.peer.order(id, 2, { op: 'kill' })
  })
})
