// @module-tag long
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { IsolationStage, ratios, sideBySide } from '../faults/isolation-run.ts'

const FLEET = { nodes: 4, serversPerNode: 5 }
/** A glance at medians; isolation.test.ts measures the p99 of 500 servers. */
const SAMPLING = { slices: 6, each: 12 }
const MOST = 1.5

let sound: IsolationStage
let hurt: IsolationStage

beforeAll(async () => {
  sound = await IsolationStage.enter(FLEET)
  hurt = await IsolationStage.enter(FLEET)
})

afterAll(async () => {
  await sound?.leave()
  await hurt?.leave()
})

describe('a node that is connected and answers nothing', () => {
  it('keeps the medians of list, detail and power of other servers within 1.5 times', {
    timeout: 180_000,
  }, async () => {
    hurt.last.silence()
    for (const stage of [sound, hurt]) stage.begin()
    await sideBySide(sound, hurt, { slices: 2, each: 8 })
    let slowest = Number.POSITIVE_INFINITY
    // Measured once more before it counts: the machine may have been busy with something else.
    for (let attempt = 1; attempt <= 2 && slowest > MOST; attempt++) {
      slowest = Math.max(...Object.values(ratios(await sideBySide(sound, hurt, SAMPLING), 50)))
    }
    expect(slowest).toBeLessThanOrEqual(MOST)
    expect(await hurt.isLastOnline()).toBe(true)
  })
})
