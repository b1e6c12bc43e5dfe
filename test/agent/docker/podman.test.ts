import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerPlace } from '../../../src/agent/runtime/runtime.ts'
import { skippedUnless } from '../../skips.ts'
import { holderPid, texts, until } from '../runtime/rig.ts'
import { EngineStage } from './engine-stage.ts'
import { noPodman, PodmanStage } from './podman-stage.ts'

const missing = noPodman()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const used: ServerPlace[] = []
let stage: EngineStage

describe.skipIf(missing !== undefined)(`containers of Podman${WHY_NOT}`, () => {
  beforeAll(async () => {
    stage = await EngineStage.begin('none', new PodmanStage())
  }, 60_000)

  afterAll(() => stage.end(used), 60_000)

  function place(serverId: string): ServerPlace {
    const made = stage.place(serverId)
    used.push(made)
    return made
  }

  it('are offered, run, take input, end by signals, and are removed', async () => {
    expect(await stage.runtime.probe()).toMatchObject({ ok: true, isolation: 'container', version: /^\d/ as never })
    const at = place('plain')
    const run = await stage.start(
      at,
      'id -u; read x; echo "got $x"; trap "echo term; exit 5" TERM; while :; do sleep 0.05; done',
    )
    await run.input('hello')
    await until('the answer', async () => (await texts(at)).includes('got hello'))
    expect(Number((await texts(at))[0])).toBeGreaterThanOrEqual(70_000)
    await run.signal('SIGTERM')
    expect(await run.exited).toMatchObject({ code: 5 })
    await until('no container', async () => (await stage.containers()).length === 0)
  }, 60_000)

  it('go on when their holder is killed, and what is left of a deleted server is removed', async () => {
    const at = place('held')
    const run = await stage.start(
      at,
      'i=0; while [ ! -e stop ]; do i=$((i+1)); echo line $i; sleep 0.01; done; echo done',
    )
    await until('lines', async () => (await texts(at)).length > 50)
    process.kill(await holderPid(at), 'SIGKILL')
    const before = (await texts(at)).length
    await until('more lines', async () => (await texts(at)).length > before + 50)
    stage.go(at, 'stop')
    expect(await run.exited).toMatchObject({ code: 0 })
    const lines = (await texts(at)).filter((line) => line.startsWith('line '))
    expect(lines.findIndex((line, i) => line !== `line ${i + 1}`)).toBe(-1)
    await until('no container', async () => (await stage.containers()).length === 0)
    const labels = { 'panel.server': 'gone', 'panel.agent': 'another' }
    await stage.create('somebody', labels)
    await stage.runtime.discard('gone')
    expect(await stage.containers()).toEqual(['gone'])
  }, 60_000)
})
