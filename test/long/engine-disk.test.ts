// @module-tag long
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ServerPlace } from '../../src/agent/runtime/runtime.ts'
import { EngineStage, noEngine } from '../agent/docker/engine-stage.ts'
import { Registry } from '../agent/docker/registry.ts'
import { texts } from '../agent/runtime/rig.ts'
import { skippedUnless } from '../skips.ts'

const missing = noEngine()
const WHY_NOT = skippedUnless(missing === undefined, missing ?? '')
const SIZE_MB = 24
const used: ServerPlace[] = []
let full: EngineStage
let other: EngineStage

/** An engine whose store has little room. */
class SmallEngine extends EngineStage {
  override async startEngine(): Promise<void> {
    const data = join(this.folder, 'data')
    mkdirSync(data, { recursive: true })
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MB}m`, 'tmpfs', data])
    await super.startEngine()
  }
}

describe.skipIf(missing !== undefined)(`an engine whose disk is full${WHY_NOT}`, () => {
  beforeAll(async () => {
    full = await EngineStage.begin('none', new SmallEngine())
    other = await EngineStage.begin()
  }, 60_000)

  afterAll(async () => {
    await full.end(used)
    await other.end([])
  }, 60_000)

  it('says so at a pull, and runs on with what it has', async () => {
    const registry = await Registry.start(other.folder)
    try {
      const image = `${registry.host}/team/large:1`
      await other.pushLarge(image, { username: 'robot', password: 'secret' }, 2 * SIZE_MB)
      writeFileSync(join(full.folder, 'password'), 'secret\n')
      full.registries[registry.host] = { username: 'robot', passwordFile: join(full.folder, 'password') }
      const at = full.place('large')
      used.push(at)
      await expect(full.start(at, 'true', { image })).rejects.toThrow(
        /could not be pulled: the disk of the container engine is full.*no space left on device/,
      )
      const run = await full.start(at, 'echo still here')
      await run.exited
      expect(await texts(at)).toEqual(['still here'])
    } finally {
      await registry.stop()
    }
  }, 120_000)
})
