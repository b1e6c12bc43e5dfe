// @module-tag long
import { createSocket } from 'node:dgram'
import { existsSync, readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { updateServer } from '../../src/shared/api/servers.ts'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { firstEvent, type PanelEvent } from '../e2e/sse.ts'
import { readTemplate } from '../games/starter-template.ts'
import { quietPort } from '../ports.ts'

interface Game {
  readonly template: string
  readonly program: string
  readonly protocol: 'tcp' | 'udp'
}

const GAMES: readonly Game[] = [
  { template: 'openttd', program: '/usr/games/openttd', protocol: 'tcp' },
  { template: 'freeciv', program: '/usr/games/freeciv-server', protocol: 'tcp' },
  { template: 'luanti', program: '/usr/lib/minetest/minetestserver', protocol: 'udp' },
  { template: 'teeworlds', program: '/usr/games/teeworlds-server', protocol: 'udp' },
]

let panel: SplitPanel

beforeAll(async () => {
  panel = await SplitPanel.enter()
})

afterAll(async () => {
  await panel.leave()
})

async function ok(args: readonly string[]): Promise<string> {
  const ran = await panel.run(args)
  expect(ran, `${args.join(' ')}\n${ran.stderr}`).toMatchObject({ code: 0 })
  return ran.stdout
}

/** The name of the program that a process runs; nothing when it has ended. */
const programOf = (pid: number) =>
  existsSync(`/proc/${pid}/comm`) ? readFileSync(`/proc/${pid}/comm`, 'utf8').trim() : ''

const view = async (name: string) => JSON.parse(await ok(['servers', 'view', name, '-o', 'json']))

/** A player's connection, as far as the kernel is concerned. */
async function player({ protocol }: Game, port: number): Promise<() => void> {
  if (protocol === 'udp') {
    const socket = createSocket('udp4')
    socket.send(Buffer.from([3, 0, 0]), port, '127.0.0.1')
    return () => socket.close()
  }
  const socket = await new Promise<Socket>((resolve, reject) => {
    const made = connect(port, '127.0.0.1', () => resolve(made)).once('error', reject)
  })
  socket.on('error', () => {}) // the game ends
  return () => socket.destroy()
}

function occupy({ protocol }: Game, port: number): Promise<() => void> {
  return new Promise((resolve, reject) => {
    if (protocol === 'tcp') {
      const server = createServer().once('error', reject)
      server.listen(port, '127.0.0.1', () => resolve(() => server.close()))
    } else {
      const socket = createSocket('udp4').once('error', reject)
      socket.bind(port, '127.0.0.1', () => resolve(() => socket.close()))
    }
  })
}

type Fields = PanelEvent['data']

/** What the event stream says of one stretch of a server's life, event by event. */
async function eventsSince(id: string, count: number): Promise<Fields[]> {
  const events = (await panel.events(id)).slice(count)
  return events.filter(({ type }) => type === 'server_state_update').map(({ data }) => data)
}

/** The first change of state of the stretch that is so, from the stream that a client reads. */
async function eventWhen(id: string, count: number, isSo: (event: Fields) => boolean): Promise<Fields> {
  let place = 0
  const isWanted = ({ type, serverId, data }: PanelEvent): boolean =>
    serverId === id && place++ >= count && type === 'server_state_update' && isSo(data)
  return (await firstEvent(`${panel.url}/api/admin/events`, panel.token, isWanted, 150_000)).data
}

const statesOf = (events: readonly Fields[]) =>
  events.map(({ state }) => String(state)).filter((state, at, all) => state !== all[at - 1])

/** A starting server may wait for its port; a running, stopping or stopped one has nothing to explain. */
function expectNoReasonBut(waiting: RegExp, events: readonly Fields[]): void {
  for (const { state, reason } of events) {
    if (reason !== null) expect([state, reason]).toEqual(['starting', expect.stringMatching(waiting)])
  }
}

const HELD = /^Port 127\.0\.0\.1:\d+ \((TCP|UDP)\) is still held by connections/

/** API, command line and the last event agree. */
async function expectAgreement(id: string, name: string): Promise<void> {
  const last = (await eventsSince(id, 0)).at(-1)
  const [shown, asked] = [await view(name), await panel.server(id)]
  expect(last).toMatchObject({
    state: asked.status,
    reason: asked.reason,
    crashCount: asked.crashCount,
    exitCode: asked.lastExitCode,
    exitSignal: asked.lastExitSignal,
    exitCause: asked.lastExitCause,
    exitReason: asked.lastExitReason,
  })
  const { status, reason, crashCount, lastExitCode, lastExitSignal, lastExitCause, lastExitReason, pid } = asked
  const same = { status, reason, crashCount, lastExitCode, lastExitSignal, lastExitCause, lastExitReason, pid }
  expect(shown).toMatchObject(same)
}

describe.each(GAMES)('$template', (game) => {
  const { template, program } = game
  const name = `life-${template}`
  let definition: NewTemplate
  let port: number
  let id: string

  const setStartup = async (startupCommand: string | null) => {
    await panel.client.call(updateServer, { params: { serverId: id as never }, body: { startupCommand } })
  }

  describe.skipIf(!existsSync(program))('from Debian (skipped where it is not installed)', () => {
    beforeAll(async () => {
      port = await quietPort()
      const file = fileURLToPath(new URL(`../../templates/${template}.yaml`, import.meta.url))
      definition = await readTemplate(new URL(`../../templates/${template}.yaml`, import.meta.url))
      await ok(['templates', 'create', '-F', file, '--name', name])
      const where = ['--template', name, '--node', 'box', '--port', String(port), '--disk', '1G']
      await ok(['servers', 'create', '--name', name, ...where, '--start', '--wait', '--timeout', '90s', '-o', 'json'])
      ;({ id } = await view(name))
    })

    it('restarts with a player connected', async () => {
      const before = (await panel.events(id)).length
      const leave = await player(game, port)
      await ok(['servers', 'power', 'restart', name, '--wait', '--timeout', '120s'])
      leave()
      const events = await eventsSince(id, before)
      const states = statesOf(events)
      expect(states).toEqual(['stopping', 'stopped', 'starting', 'running'])
      expectNoReasonBut(HELD, events)
      expect(events.every(({ crashCount }) => crashCount === 0)).toBe(true)
      expect(events.filter(({ state }) => state !== 'stopping').every(({ exitCause }) => exitCause === 'stopped')).toBe(
        true,
      )
      expect(await view(name)).toMatchObject({ status: 'running', reason: null })
      await expectAgreement(id, name)
    })

    it('is one crash when it is killed with a player connected, and runs again', async () => {
      const before = (await panel.events(id)).length
      const leave = await player(game, port)
      const { pid } = await view(name)
      process.kill(pid, 'SIGKILL')
      await eventWhen(id, before, ({ state }) => state === 'crashed')
      await ok(['servers', 'wait', name, '--for', 'state=running', '--timeout', '120s'])
      leave()
      const after = await view(name)
      expect(after).toMatchObject({
        status: 'running',
        crashCount: 1,
        lastExitSignal: 'SIGKILL',
        lastExitCause: 'signal',
      })
      expect(after.pid).not.toBe(pid)
      const events = await eventsSince(id, before)
      expect(statesOf(events)).toEqual(['crashed', 'starting', 'running'])
      expect(events[0]).toMatchObject({
        reason: expect.stringMatching(/^The program was ended by SIGKILL; next start in \d+ s$/),
        nextRestartAt: expect.any(String),
      })
      expectNoReasonBut(HELD, events.slice(1))
      const end = { exitCode: null, exitSignal: 'SIGKILL', exitCause: 'signal', crashCount: 1 }
      for (const event of events) expect(event).toMatchObject(end)
      await expectAgreement(id, name)
      await ok(['servers', 'stop', name, '--wait', '--timeout', '60s'])
    })

    it('is not running with a wrong port in its configuration, and says where it listens', async () => {
      const wrong = await quietPort()
      const before = (await panel.events(id)).length
      await setStartup(`SERVER_PORT=${wrong}; export SERVER_PORT; ${definition.startup}`)
      await ok(['servers', 'start', name, '--no-wait'])
      const isExplained = ({ state, reason }: Fields) => state === 'starting' && String(reason).startsWith('No process')
      const seen = await eventWhen(id, before, isExplained)
      await expectAgreement(id, name)
      expect(seen['reason']).toContain(`127.0.0.1:${port}; it listens on`)
      expect(seen['reason']).toContain(`127.0.0.1:${wrong}`)
      await ok(['servers', 'stop', name, '--wait', '--timeout', '60s'])
      const events = await eventsSince(id, before)
      expect(statesOf(events)).toEqual(['starting', 'stopping', 'stopped'])
      expect(events.every(({ crashCount }) => crashCount === 0)).toBe(true)
      expect(events.at(-1)).toMatchObject({ reason: null, exitCause: 'stopped' })
      await expectAgreement(id, name)
      await setStartup(null)
    })

    // OpenTTD stays up without network then, without its ready line.
    it('is never running when its port is taken between the look and its own bind', async () => {
      const before = (await panel.events(id)).length
      await setStartup(`sleep 3; ${definition.startup}`)
      await ok(['servers', 'start', name, '--no-wait'])
      await panel.serverWhen(id, 'starting', ({ status, pid }) => status === 'starting' && pid !== null)
      const free = await occupy(game, port)
      const isExplained = ({ reason }: Fields) => reason !== null && !HELD.test(String(reason))
      const seen = await eventWhen(id, before, isExplained)
      if (seen['state'] === 'starting')
        expect(seen['reason']).toMatch(/its port \((TCP|UDP)\) is in use by another program/)
      else
        expect(seen).toMatchObject({
          state: 'crashed',
          crashCount: 1,
          exitCause: expect.stringMatching(/^(exit-code|signal)$/),
        })
      expect(statesOf(await eventsSince(id, before))).not.toContain('running')
      await ok(['servers', 'kill', name, '--wait', '--timeout', '30s'])
      free()
      await setStartup(null)
    })

    it('is stopped by a signal behind a script, and all of it has ended then', async () => {
      const before = (await panel.events(id)).length
      await setStartup(`echo pre; ${definition.startup.replace('exec ', '')}; echo post`)
      await ok(['servers', 'start', name, '--wait', '--timeout', '90s'])
      const { pid } = await view(name)
      await ok(['servers', 'stop', name, '--wait', '--timeout', '90s'])
      expect(await view(name)).toMatchObject({
        status: 'stopped',
        crashCount: 0,
        lastExitCause: 'stopped',
        reason: null,
      })
      expect(existsSync(`/proc/${pid}`)).toBe(false)
      await expectAgreement(id, name)
      const events = await eventsSince(id, before)
      expect(statesOf(events)).toEqual(['starting', 'running', 'stopping', 'stopped'])
      expectNoReasonBut(HELD, events)
      await ok(['servers', 'start', name, '--wait', '--timeout', '90s'])
      await ok(['servers', 'stop', name, '--wait', '--timeout', '60s'])
      await setStartup(null)
    })
  })
})

describe('another program', () => {
  it('has five seconds to save behind a script without exec, and --wait prints how it ended', async () => {
    const script = "trap 'sleep 5; echo all > saved; exit 0' TERM\necho ready\nwhile :; do sleep 0.1; done"
    const templateId = await panel.makeTemplate('saver', script)
    const server = await panel.makeServer('saver', templateId)
    await panel.client.call(updateServer, {
      params: { serverId: server.id },
      body: { startupCommand: 'echo pre; sh ./game.sh; echo post' },
    })
    await ok(['servers', 'start', 'saver', '--wait', '--timeout', '30s'])
    const stopped = await ok(['servers', 'stop', 'saver', '--grace', '30s', '--wait', '--timeout', '60s', '-o', 'json'])
    expect(existsSync(join(panel.filesOf(server.id), 'saved'))).toBe(true)
    expect(JSON.parse(stopped)).toMatchObject({
      status: 'stopped',
      reason: expect.stringContaining('stopped by an order'),
    })
    await ok(['servers', 'start', 'saver', '--wait', '--timeout', '30s'])
    const forced = await ok(['servers', 'stop', 'saver', '--grace', '1s', '--wait', '--timeout', '60s', '-o', 'json'])
    expect(JSON.parse(forced).reason).toBe('It did not stop within 1 s and was ended with SIGTERM')
    expect(await view('saver')).toMatchObject({ lastExitCause: 'stop-sigterm', status: 'stopped', crashCount: 0 })
  })

  it('whose ready line never comes says so after two minutes', async () => {
    const templateId = await panel.makeTemplate('silent', 'echo hello; exec sleep 1000')
    const server = await panel.makeServer('silent', templateId)
    const before = (await panel.events(server.id)).length
    const startedMs = performance.now()
    await ok(['servers', 'start', 'silent', '--no-wait'])
    const seen = await eventWhen(server.id, before, ({ reason }) => reason !== null)
    expect(performance.now() - startedMs).toBeGreaterThan(119_000)
    expect(statesOf(await eventsSince(server.id, before))).toEqual(['starting'])
    expect(seen).toMatchObject({ state: 'starting', crashCount: 0 })
    await expectAgreement(server.id, 'silent')
    expect(seen['reason']).toMatch(/^Its ready line has not come within 2 minutes; .+listens on no port$/)
    await ok(['servers', 'kill', 'silent', '--wait', '--timeout', '30s'])
  })

  it('that goes into the background runs on, and is stopped by an order', async () => {
    const templateId = await panel.makeTemplate('daemon', "setsid sh -c 'echo ready; exec sleep 1000' &\nexit 0")
    const server = await panel.makeServer('daemon', templateId)
    const started = await panel.run(['servers', 'start', 'daemon', '--wait', '--timeout', '30s'])
    if (process.getuid?.() !== 0) return
    expect(started.code).toBe(0)
    const isSleep = ({ pid }: { pid: number | null }) => pid !== null && programOf(pid) === 'sleep'
    const living = await panel.serverWhen(server.id, 'with its living process', isSleep)
    expect(living).toMatchObject({ status: 'running', crashCount: 0, reason: null })
    await expectAgreement(server.id, 'daemon')
    await ok(['servers', 'stop', 'daemon', '--wait', '--timeout', '60s'])
    expect(statesOf(await eventsSince(server.id, 0)).slice(-4)).toEqual(['starting', 'running', 'stopping', 'stopped'])
  })
})
