// @module-tag long
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { skippedUnless } from '../../skips.ts'
import { AgentStage, gameSpec } from '../agent-stage.ts'
import { holderPid, until } from '../runtime/rig.ts'
import { EngineStage, noEngine } from './engine-stage.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const used: string[] = []
let engine: EngineStage
let stage: AgentStage

describe.skipIf(missing !== undefined)(`what servers in containers leave${WHY_NOT}`, () => {
  beforeAll(async () => {
    engine = await EngineStage.begin()
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'host' }
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage.leave(used)
    await engine.end([])
  }, 60_000)

  it('goes with them when they are deleted, running or never started, and renamed by hand or not; nothing else does', {
    timeout: 30_000,
  }, async () => {
    const id = 'srv_deleted'
    const other = await engine.create('somebody', { 'panel.server': id, 'panel.agent': 'another' })
    const unlabelled = await engine.create('something', {})
    await stage.peer.order(id, 1, { op: 'start', spec: spec(id) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const { labels, id: running } = (await engine.listed(id)).find(({ state }) => state === 'running') ?? {}
    await engine.call('POST', `/containers/${running}/rename?name=mine`)
    await engine.create('never-started', labels ?? {})
    expect(await stage.peer.order(id, 2, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect((await engine.listed()).map((one) => one.id).sort()).toEqual([other, unlabelled].sort())
  })

  it('goes with them when their holder was killed and the engine was away, as soon as it is back', {
    timeout: 30_000,
  }, async () => {
    const id = 'srv_away'
    await stage.peer.order(id, 1, { op: 'start', spec: spec(id) })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const [{ labels } = { labels: {} }] = await engine.listed(id)
    expect(await stage.peer.order(id, 2, { op: 'kill' })).toMatchObject({ ok: true })
    await until('no container', async () => (await engine.listed(id)).length === 0)
    await engine.create('cut-off', labels)
    await engine.endEngine('SIGTERM')
    expect(await stage.peer.order(id, 3, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    await engine.startEngine()
    expect(await engine.listed(id)).toHaveLength(1)
    await stage.stopAgent()
    await stage.startAgent()
    await until('no container', async () => (await engine.listed(id)).length === 0)
  })

  it('is listed as an orphan without a folder, and removed as one', async () => {
    const id = 'srv_orphan'
    const known = 'srv_known'
    await stage.peer.order(known, 1, { op: 'start', spec: spec(known) })
    await stage.peer.report(known, 'running', ({ power }) => power === 'running')
    const [{ labels } = { labels: {} }] = await engine.listed(known)
    await engine.create('orphan', { ...labels, 'panel.server': id })
    const answer = await stage.peer.request({ op: 'orphans.list', known: [known] })
    expect(answer).toMatchObject({ result: { orphans: [{ serverId: id, power: 'offline', hasFiles: false }] } })
    expect(await stage.peer.order(id, 1, { op: 'delete', keepFiles: false })).toMatchObject({ ok: true })
    expect(await engine.listed(id)).toEqual([])
    expect(await engine.listed(known)).toHaveLength(1)
  }, 30_000)

  it('is a living game to the one who has renamed or paused it: its end is still seen, and a stop ends it', async () => {
    const id = 'srv_paused'
    await stage.peer.order(id, 1, {
      op: 'start',
      spec: spec(id, { stop: { type: 'signal', value: 'SIGTERM', timeoutMs: 5000 } }),
    })
    await stage.peer.report(id, 'running', ({ power }) => power === 'running')
    const [{ id: container } = { id: '' }] = await engine.listed(id)
    await engine.call('POST', `/containers/${container}/rename?name=other`)
    process.kill(await holderPid({ serverId: id, files: '', state: join(stage.dataDir, 'state', id) }), 'SIGKILL')
    await engine.call('POST', `/containers/${container}/pause`)
    expect(await stage.peer.order(id, 2, { op: 'stop' })).toMatchObject({ ok: true })
    const { lastExit } = await stage.peer.report(id, 'its end', ({ power }) => power === 'offline')
    expect(lastExit).toMatchObject({ expected: true })
    await until('no container', async () => (await engine.listed(id)).length === 0)
  }, 30_000)

  function spec(id: string, change = {}) {
    used.push(id)
    return gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
  }
})
