import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { quietPort } from '../../ports.ts'
import { skippedUnless } from '../../skips.ts'
import { AgentStage, GAME, gameSpec, isAlive } from '../agent-stage.ts'
import { texts, until } from '../runtime/rig.ts'
import { EngineStage, noEngine, TestBridge } from './engine-stage.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const used: string[] = []
let bridge: TestBridge
let engine: EngineStage
let stage: AgentStage

describe.skipIf(missing !== undefined)(`servers in containers${WHY_NOT}`, () => {
  beforeAll(async () => {
    bridge = new TestBridge()
    engine = await EngineStage.begin(bridge.name)
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'bridge' }
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage.leave(used)
    await engine.end([])
    bridge.remove()
  }, 60_000)

  function spec(id: string, change: Partial<ServerSpec> = {}): ServerSpec {
    used.push(id)
    return gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
  }

  it('are offered with what keeps them apart', () => {
    const reports = stage.peer.of('hello')[0]?.runtimes ?? []
    expect(reports.map(({ name, ok, isolation }) => [name, ok, isolation])).toEqual([
      ['process', true, 'user'],
      ['docker', true, 'container'],
    ])
    expect(stage.peer.of('hello')[0]?.capabilities).toContain('runtime.docker@1')
  })

  it('are installed, started, listened to, stopped, and deleted with their container', async () => {
    const id = 'srv_whole'
    const port = await quietPort()
    const install = {
      script: 'id -u; pwd; echo made > "$MNT_SERVER/file"',
      entrypoint: 'sh',
      timeoutMs: 20_000,
      image: 'game:1',
    }
    const startup = `cat file; ( while :; do echo pong | nc -l -p "$SERVER_PORT"; done ) & ${GAME}`
    const made = spec(id, { install, startup, ports: [{ ip: '127.0.0.1', port, primary: true }], listens: 'tcp' })
    expect(await stage.peer.order(id, 1, { op: 'install', spec: made, wipe: false, thenStart: true })).toMatchObject({
      ok: true,
    })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    expect(await answerOf(port)).toBe('pong\n')
    const lines = await texts({ serverId: id, files: '', state: join(stage.dataDir, 'state', id) })
    expect(lines).toContain('0')
    expect(lines).toContain('/mnt/server')
    expect(lines).toContain('made')
    expect(readFileSync(join(stage.dataDir, 'servers', id, 'file'), 'utf8')).toBe('made\n')
    // The agent goes away and comes back: nothing has happened to the game.
    await stage.killAgent()
    await stage.startAgent()
    const back = await stage.peer.report(id, 'it is back', ({ power }) => power === 'running')
    expect(back.pid).toBe(running.pid)
    expect(await stage.peer.order(id, 1, { op: 'stop' })).toMatchObject({ ok: true })
    const stopped = await stage.peer.report(id, 'stopped', ({ power }) => power === 'offline')
    expect(stopped.lastExit).toMatchObject({ code: 0, expected: true, cause: 'stopped' })
    await until('no container', async () => !(await engine.containers()).includes(id))
  }, 60_000)

  it('that need too much memory end for that reason', async () => {
    const id = 'srv_hungry'
    const limits = { memoryMb: 32, swapMb: 0, cpuCores: 1, diskMb: 100, pids: 64 }
    const startup = 'echo ready; dd if=/dev/zero of=/dev/null bs=200M count=1; exit 4'
    await stage.peer.order(id, 1, {
      op: 'start',
      spec: spec(id, { limits, startup, restart: { policy: 'never', maxCrashes: 1 } }),
    })
    const ended = await stage.peer.report(id, 'its end', ({ lastExit }) => lastExit !== null)
    expect(ended.lastExit).toMatchObject({ oom: true, cause: 'out-of-memory' })
  }, 30_000)

  it('start again when somebody has removed their container', { tags: ['long'], timeout: 30_000 }, async () => {
    const id = 'srv_removed'
    await stage.peer.order(id, 1, { op: 'start', spec: spec(id) })
    const { pid } = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await engine.removeContainersOf(id)
    const again = await stage.peer.report(
      id,
      'running again',
      (report) => report.power === 'running' && report.pid !== pid,
    )
    expect(await isAlive(pid ?? 0)).toBe(false)
    expect(again.lastExit).toMatchObject({ expected: false })
    expect(await stage.peer.order(id, 1, { op: 'kill' })).toMatchObject({ ok: true })
  })

  it('whose image has gone do not start, and say why', async () => {
    const id = 'srv_gone'
    await engine.importImage('127.0.0.1:1/gone:1')
    const made = spec(id, { image: '127.0.0.1:1/gone:1' })
    await stage.peer.order(id, 1, { op: 'start', spec: made })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.peer.order(id, 1, { op: 'kill' })
    await engine.call('DELETE', '/images/127.0.0.1:1/gone:1?force=1')
    const refused = await stage.peer.order(id, 2, { op: 'start', spec: { ...made, generation: 2 } })
    expect(refused).toMatchObject({ ok: false })
    const { reason } = await stage.peer.report(id, 'the reason', ({ reason }) => reason !== null)
    expect(reason).toMatch(/The image 127\.0\.0\.1:1\/gone:1 could not be pulled/)
  }, 30_000)
})

function answerOf(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = connect(port, '127.0.0.1').setEncoding('utf8')
    socket.on('data', (chunk: string) => {
      text += chunk
      resolve(text)
      socket.destroy()
    })
    socket.on('error', reject)
  })
}
