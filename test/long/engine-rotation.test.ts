import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerPlace } from '../../src/agent/runtime/runtime.ts'
import { EngineStage, noEngine } from '../agent/docker/engine-stage.ts'
import { allLines, holderPid, texts, until } from '../agent/runtime/rig.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const used: ServerPlace[] = []
let stage: EngineStage

describe.skipIf(missing !== undefined)(`the log of an engine that is rotated${WHY_NOT}`, () => {
  beforeAll(async () => {
    stage = await EngineStage.begin()
  })

  afterAll(() => stage?.end(used))

  it('is followed over its files at 10,000 lines a second, each line once', async () => {
    const at = stage.place('rotated')
    used.push(at)
    // What the engine keeps of a line is some 80 bytes, and a file of it has 16 MiB.
    const script = 'read -r go; i=0; while [ $i -lt 600000 ]; do seq $((i+1)) $((i+200)); i=$((i+200)); usleep 10000; done; echo over'
    const run = await stage.start(at, script)
    process.kill(await holderPid(at), 'SIGKILL')
    await until('a holder again', async () => (await texts(at, 'system')).length > 0)
    await until('its input', async () => {
      return await run.input('go').then(
        () => true,
        () => undefined,
      )
    })
    const exit = await Promise.race([run.exited, new Promise((r) => setTimeout(() => r('late'), 110_000))])
    const lines = await texts(at)
    process.stderr.write(`${JSON.stringify({ exit, count: lines.length, last: lines.at(-1), system: await texts(at, 'system') })}\n`)
    const wrong = lines.findIndex((line, i) => line !== String(i + 1))
    process.stderr.write(`${JSON.stringify({ wrong, around: lines.slice(Math.max(0, wrong - 2), wrong + 3) })}\n`)
    expect(exit).toMatchObject({ code: 0 })
    expect(lines.at(-1)).toBe('over')
    expect(lines.findIndex((line, i) => line !== String(i + 1))).toBe(600_000)
    expect((await allLines(at)).length).toBeGreaterThan(600_000)
  })
})
