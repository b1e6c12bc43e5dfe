// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerPlace } from '../../src/agent/runtime/runtime.ts'
import { EngineStage, noEngine } from '../agent/docker/engine-stage.ts'
import { holderPid, texts, until } from '../agent/runtime/rig.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
/** What the engine keeps of a line is some 80 bytes, and a file of it has 16 MiB. */
const LINES = 600_000
const used: ServerPlace[] = []
let stage: EngineStage

describe.skipIf(missing !== undefined)(`the log of an engine${WHY_NOT}`, () => {
  beforeAll(async () => {
    stage = await EngineStage.begin()
  })

  afterAll(() => stage?.end(used))

  it('is followed over its files at 10,000 lines a second, each line once', async () => {
    const at = stage.place('rotated')
    used.push(at)
    const count = `i=0; while [ $i -lt ${LINES} ]; do seq $((i+1)) $((i+200)); i=$((i+200)); usleep 10000; done`
    const run = await stage.start(at, `read -r go; ${count}; echo over`)
    process.kill(await holderPid(at), 'SIGKILL')
    await until('a holder again', async () => (await texts(at, 'system')).length > 0)
    await until('its input', async () => {
      const typed = run.input('go')
      return await typed.then(
        () => true,
        () => false, // the next holder listens in a moment
      )
    })
    expect(await run.exited).toMatchObject({ code: 0 })
    const lines = await texts(at)
    expect(lines.at(-1)).toBe('over')
    expect(lines.findIndex((line, i) => line !== String(i + 1))).toBe(LINES)
  })
})
