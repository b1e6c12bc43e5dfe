// @module-tag long
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { DIST } from '../run-panel.ts'
import { AgentStage, gameSpec, HOLDER } from './agent-stage.ts'
import { GatewayPeer } from './gateway-peer.ts'
import { anEarlierBoot, cutPower, killThose } from './power-cut.ts'

let stage: AgentStage
let used: string[]

beforeEach(async () => {
  used = []
  stage = await AgentStage.enter()
  await stage.startAgent()
}, 30_000)

afterEach(async () => {
  await stage.leave(used)
}, 60_000)

function serverNamed(name: string): string {
  used.push(`srv_${name}`)
  return `srv_${name}`
}

describe('a run that has left no trace', () => {
  it('counts as a crash when only its processes have vanished', async () => {
    const id = serverNamed('vanished')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.killAgent()
    await cutPower(stage.dataDir, [{ id, pid: running.pid }])
    await stage.startAgent()
    const crashed = await stage.peer.report(id, 'crashed', ({ crash }) => crash.count === 1)
    expect(crashed.lastExit).toMatchObject({ expected: false })
    const again = await stage.peer.report(
      id,
      'running again',
      ({ power, pid }) => power === 'running' && pid !== running.pid,
    )
    expect(again.crash.crashed).toBe(false)
  })

  it.each(['gone', 'kept'] as const)(
    'is started again at once, and is no crash, when the machine was restarted (its record %s)',
    async (record) => {
      const id = serverNamed(`reboot-${record}`)
      await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
      const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
      await stage.killAgent()
      await cutPower(stage.dataDir, [{ id, pid: running.pid }], record)
      await anEarlierBoot(stage.dataDir)
      await stage.startAgent()
      const again = await stage.peer.report(
        id,
        'running again',
        ({ power, pid }) => power === 'running' && pid !== running.pid,
      )
      expect(again.crash.count).toBe(0)
      const reported = [...stage.peer.of('snapshot').flatMap(({ servers }) => servers), ...stage.peer.reports(id)]
      expect(
        reported.some(({ reason, lastExit }) => reason === 'The machine was restarted' && lastExit?.expected === false),
      ).toBe(true)
    },
  )
})

describe('a holder that is killed while its game starts', () => {
  it('may have had the ready line: the console says so, and the server does not start for ever', async () => {
    const dataDir = join(stage.dataDir, 'inside')
    const peer = await GatewayPeer.listen()
    // Two minutes are a moment here; all other times are what they are.
    const sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms > 100_000 ? 200 : ms, signal)
    // As it was compiled: its thread for ready lines is a file of JavaScript.
    const { startAgent }: typeof import('../../src/agent/main.ts') = await import(join(DIST, 'src/agent/main.js'))
    const agent = await startAgent({
      dataDir,
      connect: { url: peer.url, nodeId: 'node_inside', nodeKey: 'pnk_inside' },
      holder: HOLDER,
      clock: { ...systemClock, sleep },
      log: { info: () => {}, warn: () => {}, error: () => {} },
      version: '0.0.0-test',
    })
    await peer.until('the snapshot', () => peer.of('snapshot')[0])
    const id = 'srv_lost'
    const spec = gameSpec(id, 1, { startup: 'echo hello; read -r line', done: [{ kind: 'contains', value: 'lost' }] })
    await peer.order(id, 1, { op: 'start', spec })
    await peer.request({ op: 'console.subscribe', serverId: id, after: 0 })
    const says = (text: string) => peer.lines(id).some(([, , , line]) => line.includes(text))
    await peer.until('the game', () => says('hello'))
    const { pid } = await peer.report(id, 'starting', ({ power }) => power === 'starting')
    await killThose((words) => words.includes(join(dataDir, 'state', id)))
    const running = await peer.report(id, 'running', ({ power }) => power === 'running')
    expect(running.pid).toBe(pid)
    // Console and state come by ways of their own.
    await peer.until('the remark', () => says('lines of that moment may be missing'))
    await peer.order(id, 2, { op: 'kill' })
    await peer.order(id, 3, { op: 'delete', keepFiles: false })
    await agent.stop()
    await peer.close()
  })
})

describe('a journal that is lost', () => {
  it('gets a new identity; a start finds the living game and makes no second one', async () => {
    const id = serverNamed('amnesia')
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1) })
    const running = await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    await stage.killAgent()
    await rm(join(stage.dataDir, 'journal'), { recursive: true })
    await stage.startAgent()
    const [first, second] = stage.peer.of('hello')
    expect(second?.journalId).not.toBe(first?.journalId)
    expect(stage.peer.of('snapshot').at(-1)).toMatchObject({
      servers: [{ serverId: id, power: 'running', pid: running.pid }],
      orphans: [],
    })
    const done = await stage.peer.order(id, 2, { op: 'start', spec: gameSpec(id, 2) })
    expect(done).toMatchObject({ ok: true, noop: true })
    const found = await stage.peer.report(
      id,
      'running',
      ({ power, generation }) => power === 'running' && generation === 2,
    )
    expect(found.pid).toBe(running.pid)
  })
})

describe('a server over its disk limit', () => {
  it('is stopped with the reason, and not started before there is room', {
    timeout: 30_000,
  }, async () => {
    const id = serverNamed('disk')
    const limits = { ...gameSpec(id, 1).limits, diskMb: 1 }
    const startup = 'head -c 3000000 /dev/zero > big.bin; echo ready; read -r line'
    await stage.peer.order(id, 1, { op: 'start', spec: gameSpec(id, 1, { startup, limits }) })
    const stopped = await stage.peer.report(
      id,
      'stopped',
      ({ power, reason }) => power === 'offline' && reason !== null,
    )
    expect(stopped.reason).toContain('of its 1 MB of disk')
    expect(stopped).toMatchObject({ crash: { crashed: false }, lastExit: { expected: true } })
    const refused = await stage.peer.order(id, 2, { op: 'start', spec: gameSpec(id, 2, { startup, limits }) })
    expect(refused.error?.code).toBe('NO_SPACE')
  })
})
