// @module-tag long
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../src/shared/protocol/server-spec.ts'
import { AgentStage, GAME, gameSpec, isAlive } from '../agent/agent-stage.ts'
import { EngineStage } from '../agent/docker/engine-stage.ts'
import { noPodman, PodmanStage } from '../agent/docker/podman-stage.ts'
import { holderPid, texts, until } from '../agent/runtime/rig.ts'
import { skippedUnless } from '../skips.ts'

const missing = noPodman()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const IMAGE = 'localhost/game:1'
const used: string[] = []
let engine: EngineStage
let stage: AgentStage

describe.skipIf(missing !== undefined)(`servers in containers of Podman${WHY_NOT}`, () => {
  beforeAll(async () => {
    engine = await EngineStage.begin('none', new PodmanStage())
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'host' }
    await stage.startAgent()
  })

  afterAll(async () => {
    await stage?.leave(used)
    await engine?.end([])
  })

  it('are installed, started, talked to, measured, kept over an agent that is killed, stopped, and deleted', async () => {
    const id = 'srv_whole'
    expect(stage.peer.of('hello')[0]?.runtimes?.find(({ name }) => name === 'docker')).toMatchObject({
      ok: true,
      isolation: 'container',
      limits: expect.stringMatching(/^cgroup-v[12]$/),
    })
    const install = {
      script: 'id -u; echo made > "$MNT_SERVER/file"',
      entrypoint: 'sh',
      timeoutMs: 60_000,
      image: IMAGE,
    }
    const made = spec(id, { install, startup: `id -u; cat file; ${GAME}` })
    expect(await stage.peer.order(id, 1, { op: 'install', spec: made, wipe: false, thenStart: true })).toMatchObject({
      ok: true,
    })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await type(id, 'hello')
    await says(id, 'got hello')
    const [installer, user, file] = await linesOf(id)
    expect([installer, file]).toEqual(['0', 'made'])
    expect(Number(user)).toBeGreaterThanOrEqual(70_000)
    await stage.peer.until('its use', () =>
      stage.peer
        .of('stats')
        .flatMap(({ servers }) => servers.filter(({ serverId }) => serverId === id))
        .find(({ memoryMb, processes }) => (memoryMb ?? 0) > 0 && (processes ?? 0) > 0),
    )
    await stage.killAgent()
    await stage.startAgent()
    const back = await stage.peer.report(id, 'it is back', ({ power }) => power === 'running')
    expect(back.pid).toBe(running.pid)
    await type(id, 'again')
    await says(id, 'got again')
    expect(await stage.peer.order(id, 1, { op: 'stop' })).toMatchObject({ ok: true })
    const stopped = await stage.peer.report(id, 'stopped', ({ power }) => power === 'offline')
    expect(stopped.lastExit).toMatchObject({ code: 0, expected: true, cause: 'stopped' })
    await until('no container', async () => (await engine.listed(id)).length === 0)
    await run(spec(id, { generation: 2 }), 2)
    expect(await stage.peer.order(id, 3, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect(await engine.listed(id)).toEqual([])
  })

  it('say 20,000 lines, and go on when holder and service are killed, each line once', async () => {
    const id = 'srv_held'
    await run(
      spec(id, {
        startup:
          'echo ready; seq 1 20000; read go; i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done',
      }),
    )
    await says(id, '20000')
    expect(await linesOf(id)).toEqual(['ready', ...Array.from({ length: 20_000 }, (_, i) => String(i + 1))])
    await type(id, 'go')
    await says(id, 'line 20')
    process.kill(await holderPid(at(id)), 'SIGKILL')
    await until('more lines', async () => (await linesOf(id)).length > 20_100)
    await engine.endEngine('SIGKILL')
    await engine.startEngine()
    const before = (await linesOf(id)).length
    await until('more lines', async () => (await linesOf(id)).length > before + 100)
    writeFileSync(join(stage.dataDir, 'servers', id, 'stop'), '')
    await stage.peer.report(id, 'its end', ({ lastExit }) => lastExit?.code === 0)
    const lines = (await linesOf(id)).filter((line) => line.startsWith('line '))
    expect(lines.findIndex((line, i) => line !== `line ${i + 1}`)).toBe(-1)
  })

  it('have a terminal, are killed, run out of memory and are removed by hand, and each is said as what it is', async () => {
    const pty = 'srv_pty'
    const input = { kind: 'pty', columns: 120, rows: 40 } as const
    await run(
      spec(pty, {
        console: { logMb: 8, input },
        startup: `until size=$(stty size 2> /dev/null) && [ -n "$size" ]; do sleep 0.02; done; echo "$size"; ${GAME}`,
      }),
    )
    await type(pty, 'hello')
    await says(pty, 'got hello')
    expect(await linesOf(pty)).toEqual(['40 120', expect.stringMatching(/^hello from/), 'ready', 'got hello'])
    expect(await stage.peer.order(pty, 2, { op: 'kill' })).toMatchObject({ ok: true })
    const killed = await stage.peer.report(pty, 'its end', ({ power }) => power === 'offline')
    expect(killed.lastExit).toMatchObject({ expected: true, cause: 'killed' })

    const hungry = 'srv_hungry'
    const limits = { memoryMb: 32, swapMb: 0, cpuCores: 1, diskMb: 100, pids: 64 }
    const startup = 'echo ready; dd if=/dev/zero of=/dev/null bs=200M count=1; exit 4'
    const never = { policy: 'never', maxCrashes: 1 } as const
    await stage.peer.order(hungry, 1, { op: 'start', spec: spec(hungry, { limits, startup, restart: never }) })
    const ended = await stage.peer.report(hungry, 'its end', ({ lastExit }) => lastExit !== null)
    expect(ended.lastExit).toMatchObject({ oom: true, cause: 'out-of-memory' })

    const removed = 'srv_removed'
    await run(spec(removed, { restart: never }))
    const { pid } = stage.peer.reports(removed).at(-1) ?? {}
    await engine.removeContainersOf(removed)
    const gone = await stage.peer.report(removed, 'its end', ({ power }) => power === 'offline')
    expect(gone.lastExit).toMatchObject({ expected: false })
    expect(await isAlive(pid ?? 0)).toBe(false)
  })

  it('whose image is not there do not start, and say why', async () => {
    const id = 'srv_gone'
    const made = spec(id, { image: '127.0.0.1:1/gone:1' })
    expect(await stage.peer.order(id, 1, { op: 'start', spec: made })).toMatchObject({ ok: false })
    const { reason } = await stage.peer.report(id, 'the reason', ({ reason }) => reason !== null)
    expect(reason).toMatch(/The image 127\.0\.0\.1:1\/gone:1 could not be pulled/)
  })

  function spec(id: string, change: Partial<ServerSpec> = {}): ServerSpec {
    used.push(id)
    return gameSpec(id, 1, { runtime: 'docker', image: IMAGE, ...change })
  }

  async function run(made: ServerSpec, generation = 1): Promise<void> {
    const done = await stage.peer.order(made.serverId, generation, { op: 'start', spec: made })
    expect(done, JSON.stringify(done.error)).toMatchObject({ ok: true })
    await stage.peer.report(made.serverId, 'running', ({ power }) => power === 'running')
  }

  async function type(id: string, line: string): Promise<void> {
    const { error } = await stage.peer.request({ op: 'console.input', serverId: id, lines: [line] })
    expect(error).toBeNull()
  }

  async function says(id: string, text: string): Promise<void> {
    await until(`the line ${text}`, async () => (await linesOf(id)).includes(text))
  }

  const at = (id: string) => ({ serverId: id, files: '', state: join(stage.dataDir, 'state', id) })
  const linesOf = (id: string) => texts(at(id))
})
