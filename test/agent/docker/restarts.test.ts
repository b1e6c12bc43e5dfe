import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerSpec } from '../../../src/shared/protocol/server-spec.ts'
import { skippedUnless } from '../../skips.ts'
import { AgentStage, GAME, gameSpec } from '../agent-stage.ts'
import { EngineStage, noEngine } from './engine-stage.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const SAVING = "trap 'echo saved; exit 0' TERM; echo ready; while :; do sleep 0.1; done"
const used: string[] = []
let engine: EngineStage
let stage: AgentStage

describe.skipIf(missing !== undefined)(`servers of an engine that ends its containers with itself${WHY_NOT}`, () => {
  beforeAll(async () => {
    engine = new EngineStage()
    engine.liveRestore = false
    await EngineStage.begin('none', engine)
    stage = await AgentStage.enter()
    stage.docker = { sockets: [engine.socket], network: 'host' }
    await stage.startAgent()
  }, 60_000)

  afterAll(async () => {
    await stage.leave(used)
    await engine.end([])
  }, 60_000)

  async function start(id: string, change: Partial<ServerSpec>): Promise<void> {
    used.push(id)
    const spec = gameSpec(id, 1, { runtime: 'docker', image: 'game:1', ...change })
    expect(await stage.peer.order(id, 1, { op: 'start', spec })).toMatchObject({ ok: true })
  }

  const running = (id: string) => stage.peer.report(id, 'running', ({ power }) => power === 'running')

  /** A game that ends, one that ends cleanly, and one that nobody starts again. */
  async function restartEngine(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const name = signal.toLowerCase()
    const [plain, saving, never] = [`srv_plain-${name}`, `srv_saving-${name}`, `srv_never-${name}`]
    await start(plain, { startup: GAME })
    await start(saving, { startup: SAVING })
    await start(never, { startup: SAVING, restart: { policy: 'never', maxCrashes: 5 } })
    for (const id of [plain, saving, never]) await running(id)
    await engine.endEngine(signal)
    await engine.startEngine()
    const message = 'The container engine was stopped or restarted, and has ended its containers'
    for (const id of [plain, saving]) {
      const ended = await stage.peer.passing(id, 'its end', ({ lastExit }) => lastExit !== null)
      expect(ended).toMatchObject({
        power: 'starting',
        reason: expect.stringMatching(`^${message}; next start in [23] s$`),
        lastExit: { cause: 'engine-restart', message },
        crash: { count: 0, crashed: false },
      })
      expect((await running(id)).crash).toMatchObject({ count: 0, crashed: false })
    }
    const down = await stage.peer.report(never, 'its end', ({ lastExit }) => lastExit !== null)
    expect(down).toMatchObject({ power: 'offline', reason: message, crash: { crashed: true, nextRestartMs: null } })
  }

  it('start again after its restart, which counts as no crash, also those that end cleanly by it', async () => {
    await restartEngine('SIGTERM')
  }, 60_000)

  it('start again after its end without a word as well', { tags: ['long'], timeout: 60_000 }, async () => {
    await restartEngine('SIGKILL')
  })

  it('are not given up while it is away, and start when it is back', { timeout: 60_000 }, async () => {
    const id = 'srv_away'
    const startup = `[ -e crashed ] || { touch crashed; echo ready; exit 3; }; ${GAME}`
    await start(id, { startup, restart: { policy: 'on-failure', maxCrashes: 2 } })
    await stage.peer.passing(id, 'the crash', ({ crash }) => crash.crashed)
    await engine.endEngine('SIGTERM')
    const failed = await stage.peer.passing(id, 'a failed start', ({ reason }) => reason?.includes('engine') === true)
    expect(failed.reason).toMatch(/container engine of this node .*; next start in (8|9|10) s$/)
    expect(failed.crash).toMatchObject({ count: 1, crashed: true })
    await engine.startEngine()
    await running(id)
  })
})
