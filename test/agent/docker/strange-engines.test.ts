// @module-tag long
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { DockerRuntime } from '../../../src/agent/runtime/docker/docker-runtime.ts'
import { isImageName, registryOf, withTag } from '../../../src/agent/runtime/docker/image-name.ts'
import { HeldRuns } from '../../../src/agent/runtime/held-runs.ts'
import type { Run, RunPlan, ServerPlace } from '../../../src/agent/runtime/runtime.ts'
import { ServerUsers } from '../../../src/agent/runtime/server-users.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'
import { HOLDER, LIMITS, texts, until } from '../runtime/rig.ts'
import { type Answer, FakeEngine, json, raw } from './fake-engine.ts'

const ID = 'ab'.repeat(32)
let engine: FakeEngine

beforeEach(async () => {
  engine = await FakeEngine.listen()
})
afterEach(() => engine.close())

describe('names of images', () => {
  it('are those that registries take, and never a path of the API of the engine', () => {
    for (const name of [
      'game',
      'game:1',
      'library/game-server_x.y:latest',
      'ghcr.io/team/game:2.1-alpine',
      'localhost:5000/a/b/c',
      `127.0.0.1:5000/team/game@sha256:${'0'.repeat(64)}`,
    ]) {
      expect(isImageName(name), name).toBe(true)
    }
    for (const name of [
      '',
      '../x',
      'a/../../containers/x',
      'a//b',
      'Game',
      'a b',
      '-x',
      'a:b:c',
      'a@b',
      'a@sha256:1',
      'a?x=1',
      'a%2fb',
      'a\nb',
      'a/./b',
      `a:${'b'.repeat(129)}`,
      'a'.repeat(301),
    ]) {
      expect(isImageName(name), name).toBe(false)
    }
    expect([registryOf('team/game'), registryOf('ghcr.io/a'), registryOf('localhost/a')]).toEqual([
      'docker.io',
      'ghcr.io',
      'localhost',
    ])
    expect([withTag('a/b'), withTag('h:5/b'), withTag('a:1')]).toEqual(['a/b:latest', 'h:5/b:latest', 'a:1'])
  })
})

describe('an engine', () => {
  let dataDir: string
  let runs: HeldRuns
  let runtime: DockerRuntime
  let place: ServerPlace

  beforeEach(() => {
    dataDir = mkdtempSync(join(tmpdir(), 'panel-strange-'))
    mkdirSync(join(dataDir, 'run'), { mode: 0o700 })
    runs = new HeldRuns({ execArgv: HOLDER, clock: systemClock })
    const users = new ServerUsers(dataDir)
    const sockets = [engine.socket]
    runtime = new DockerRuntime({ dataDir, runs, users, sockets, network: 'host', registries: {}, clock: systemClock })
    place = { serverId: 'srv_x', files: join(dataDir, 'servers', 'x'), state: join(dataDir, 'state', 'x') }
  })
  afterEach(() => rmSync(dataDir, { recursive: true, force: true }))

  async function start(more: Partial<RunPlan> = {}, signal?: AbortSignal): Promise<Run> {
    await runtime.prepare(place)
    const plan: RunPlan = {
      kind: 'game',
      launchId: globalThis.crypto.randomUUID(),
      argv: ['/bin/sh', '-c', 'true'],
      env: {},
      image: 'game:1',
      ports: [],
      limits: LIMITS,
      logMb: 8,
    }
    return await runtime.start(place, { ...plan, ...more }, signal)
  }

  it('that answers no JSON, too much of it, or another kind of thing cannot be used, and the report says why', async () => {
    engine.answers = [['GET /info', raw(200, '<html>')]]
    expect(await runtime.probe()).toMatchObject({ ok: false, reason: expect.stringContaining('no JSON') })
    engine.answers = [['GET /info', raw(200, '[')]]
    expect(await runtime.probe()).toMatchObject({ ok: false })
    engine.answers = [['GET /info', raw(200, `"${'x'.repeat(5_000_000)}"`)]]
    expect(await runtime.probe()).toMatchObject({ ok: false, reason: expect.stringContaining('too long') })
    engine.answers = [['GET /info', json(200, ['x'])]]
    expect((await runtime.probe()).name).toBe('docker')
    engine.answers = [['GET /version', json(500, { message: 'bad\u001b[31m\nthing' })]]
    expect((await runtime.probe()).reason).toMatch(/bad \[31m thing$/)
    engine.answers = [['GET /containers/json', json(200, [{ Id: '../../x', Labels: {} }, 7])]]
    expect(await runtime.remains()).toEqual(new Set())
    // One that does not know the filter answers the containers of everybody.
    const somebodys = { 'panel.agent': 'somebody', 'panel.server': place.serverId }
    engine.answers = [['GET /containers/json', json(200, [{ Id: ID, Labels: somebodys }])]]
    expect(await runtime.remains()).toEqual(new Set())
    await runtime.discard(place.serverId)
    expect(engine.of('DELETE')).toEqual([])
  })

  it('of an ordinary user, or one with other users, is reported, and its containers own the files of their server', async () => {
    const bodyOf = async (security: string[]) => {
      engine.answers = [
        ['GET /info', json(200, { MemoryLimit: true, PidsLimit: true, CgroupVersion: '2', SecurityOptions: security })],
        ['POST /containers/create', json(400, { message: 'that is all' })],
      ]
      await expect(start()).rejects.toThrow('that is all')
      return JSON.parse(engine.of('POST /containers/create').at(-1)?.body ?? '{}')
    }
    expect((await bodyOf(['name=seccomp,profile=default'])).HostConfig.UsernsMode).toBeUndefined()
    const remapped = await bodyOf(['name=userns'])
    expect(remapped.HostConfig.UsernsMode).toBe('host')
    expect((await runtime.probe()).capabilities).toContain('engine: user namespaces, not used by servers')
    const rootless = await bodyOf(['name=rootless', 'name=seccomp,profile=default'])
    expect(rootless).toMatchObject({ User: '0:0', HostConfig: { CapDrop: ['ALL'], Privileged: false } })
    expect(await runtime.probe()).toMatchObject({ userNamespaces: 'off' })
    expect((await runtime.probe()).capabilities).toContain('engine: rootless')
  })

  it('cannot have its redirects, ids and progress of pulls taken for anything else', async () => {
    engine.answers = [['GET /images/', raw(301, '', { location: '/containers/json' })]]
    await expect(start()).rejects.toThrow('301')
    engine.answers = [['POST /containers/create', json(201, { Id: '../../images/x', Warnings: [] })]]
    await expect(start()).rejects.toThrow('names no container')
    for (const [progress, why] of [
      ['no progress', 'what is no progress'],
      ['x'.repeat(200_000), 'what is no progress'],
      [
        `${JSON.stringify({ error: 'write /x: no space left on device' })}\n`,
        'the disk of the container engine is full',
      ],
      [`${JSON.stringify({ error: 'odd\u0007' })}\n`, 'could not be pulled: odd'],
    ] as const) {
      engine.answers = [
        ['GET /images/', json(404, {})],
        ['POST /images/create', raw(200, progress)],
      ]
      await expect(start(), why).rejects.toThrow(why)
    }
  })

  it('that sends what is no output, or an endless frame, does no harm: the run goes by its log and ends', async () => {
    let ended = false
    engine.onAttach = (socket) => {
      socket.write(Buffer.from([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]))
      socket.write('one\ntwo\n')
      socket.write(Buffer.alloc(3_000_000, 'z'))
      socket.end()
    }
    engine.answers = [
      ['POST /containers/create', json(201, { Id: ID, Warnings: ['beware\u001b[2J'] })],
      [`GET /containers/${ID}/logs`, raw(200, 'nonsense')],
      ...lifeOf(() => ended),
    ]
    const run = await start()
    await until('the output', async () => (await texts(place)).length > 1)
    ended = true
    expect(await run.exited).toMatchObject({ code: 7 })
    expect((await texts(place)).slice(0, 2)).toEqual(['one', 'two'])
    expect(await texts(place, 'system')).toContain('The container engine warns: beware [2J')
    await runs.forget(place, run.record.launchId)
    await until('its removal', () => engine.of(`DELETE /containers/${ID}`).length > 0)
  }, 60_000)

  it('whose instants are whole seconds, or end without their zeros, gives each line of its log once', async () => {
    const said = ['00Z one', '01Z two', '01Z three', '01.1Z four', '01.12Z five', '01.2Z six', '02Z seven']
    // Each reading begins at the instant of the last line before it, and has all of that instant once more.
    const readings = [said.slice(0, 2), said.slice(1, 4), said.slice(3, 5), said.slice(4, 6), said.slice(5)]
    engine.onAttach = (socket) => {
      socket.end(frameOf('one\n'))
    }
    const log: Answer = (response) => {
      const reading = readings.length > 1 ? readings.shift() : readings[0]
      response.end(Buffer.concat((reading ?? []).map((line) => frameOf(`2026-01-01T00:00:${line}\n`))))
    }
    engine.answers = [
      ['POST /containers/create', json(201, { Id: ID, Warnings: [] })],
      [`GET /containers/${ID}/logs`, log],
      ...lifeOf(() => readings.length === 1),
    ]
    const run = await start()
    await run.exited
    expect(await texts(place)).toEqual(['one', 'two', 'three', 'four', 'five', 'six', 'seven'])
    await runs.forget(place, run.record.launchId)
  }, 60_000)
})

/** An output of a container as the engine frames it. */
function frameOf(text: string): Buffer {
  const head = Buffer.from([1, 0, 0, 0, 0, 0, 0, Buffer.byteLength(text)])
  return Buffer.concat([head, Buffer.from(text)])
}

/** What an engine answers of a container that ends when a test says so. */
function lifeOf(hasEnded: () => boolean): FakeEngine['answers'] {
  const state = () => ({
    Id: ID,
    State: {
      Running: !hasEnded(),
      Pid: 0,
      ExitCode: 7,
      StartedAt: '2026-01-01T00:00:00Z',
      FinishedAt: '2026-01-01T00:00:09Z',
    },
  })
  const wait: Answer = (response) => {
    const look = setInterval(() => {
      if (!hasEnded()) return
      clearInterval(look)
      response.end('{}')
    }, 20)
  }
  return [
    [`GET /containers/${ID}/json`, (response, call) => json(200, state())(response, call)],
    [`POST /containers/${ID}/wait`, wait],
    [`POST /containers/${ID}/start`, raw(204, '')],
    [`DELETE /containers/${ID}`, raw(204, '')],
  ]
}

describe('the pull of an image', () => {
  let stage: AgentStage
  const used: string[] = []

  beforeAll(async () => {
    stage = await AgentStage.enter()
  })
  beforeEach(async () => {
    stage.docker = { sockets: [engine.socket], network: 'host' }
    await stage.startAgent()
  })
  afterEach(() => stage.stopAgent())
  afterAll(() => stage.leave(used))

  const PULL = 'POST /images/create'

  function pulling(id: string, change: Partial<ServerSpec> = {}): ServerSpec {
    used.push(id)
    engine.answers = [
      ['GET /images/', json(404, { message: 'no such image' })],
      [
        PULL,
        (response) => {
          response.write(
            `${JSON.stringify({ id: 'a', status: 'Downloading', progressDetail: { current: 1, total: 9 } })}\n`,
          )
        },
      ],
    ]
    return gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
  }

  async function begun(): Promise<void> {
    await until('the pull', () => engine.of(PULL).length > 0)
  }

  async function calledOff(): Promise<void> {
    await until('the end of the pull', () => engine.of(PULL).every(({ closed }) => closed))
  }

  it.each(['stop', 'kill'] as const)('for a start is called off by a %s', async (op) => {
    const id = `srv_${op}`
    const started = stage.peer.order(id, 1, { op: 'start', spec: pulling(id) })
    await begun()
    expect(await stage.peer.order(id, 2, { op })).toMatchObject({ ok: true })
    await calledOff()
    expect(await started).toMatchObject({ ok: false, error: { code: 'INTERRUPTED' } })
    expect(await stage.peer.report(id, 'at rest', ({ power }) => power === 'offline')).toMatchObject({ reason: null })
  })

  it('for an installation is called off by a kill, which it has failed by', async () => {
    const id = 'srv_install'
    const install = { script: 'true', entrypoint: 'sh', timeoutMs: 60_000, image: 'tools:1' }
    const spec = pulling(id, { install })
    const installed = stage.peer.order(id, 1, { op: 'install', spec, wipe: false, thenStart: false })
    await begun()
    expect(await stage.peer.order(id, 2, { op: 'kill' })).toMatchObject({ ok: true })
    await calledOff()
    expect(await installed).toMatchObject({ ok: false, error: { code: 'INTERRUPTED' } })
  })

  it('for a rebuild says how far it is, and ends when the rebuild is cancelled', async () => {
    const id = 'srv_rebuild'
    const command = { op: 'rebuild' as const, spec: pulling(id), thenStart: false }
    stage.peer.send({ type: 'command', id: 'cmd_rebuild', serverId: id, generation: 1, command })
    await begun()
    const report = await stage.peer.until('a report', () =>
      stage.peer.of('command.progress').find(({ progress }) => (progress as { totalBytes?: number }).totalBytes === 9),
    )
    expect(report.progress).toEqual({ step: 'pulling', doneBytes: 1, totalBytes: 9 })
    expect(await stage.peer.report(id, 'its activity', ({ activity }) => activity === 'installing')).toBeDefined()
    stage.peer.send({ type: 'command.cancel', id: 'cmd_rebuild', serverId: id })
    await calledOff()
    expect(await stage.peer.done('cmd_rebuild')).toMatchObject({ ok: false })
    await stage.peer.report(id, 'at rest', ({ activity }) => activity === null)
  })

  it('is called off by the end of the agent, and begins anew with the next one', async () => {
    const id = 'srv_ending'
    void stage.peer.order(id, 1, { op: 'start', spec: pulling(id) }).catch(() => undefined)
    await begun()
    await stage.stopAgent()
    await calledOff()
    await stage.startAgent()
    await until('the next pull', () => engine.of(PULL).length > 1)
    expect(await stage.peer.order(id, 2, { op: 'kill' })).toMatchObject({ ok: true })
  })
})
