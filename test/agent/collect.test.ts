import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks'
import { afterEach, expect, it } from 'vitest'
import { collectAfter, collectAll, collectPassed } from '../../src/shared/platform/collect.ts'
import { DIST } from '../run-panel.ts'

/** As Node documents entries of `gc`. */
type GcEntry = PerformanceEntry & { readonly detail?: { readonly kind: number } }

const MIB = 1024 * 1024
const kinds: unknown[] = []
const observer = new PerformanceObserver((list) => {
  for (const { detail } of list.getEntries() as GcEntry[]) kinds.push(detail?.kind)
})
afterEach(() => observer.disconnect())

/** The kinds of collections while that runs; V8 may add minor ones of its own. */
async function collections(work: () => void): Promise<unknown[]> {
  kinds.length = 0
  observer.observe({ entryTypes: ['gc'] })
  work()
  await expect.poll(() => kinds.length).toBeGreaterThan(0)
  return kinds
}

it('what has passed is collected: often the young, after many bytes all, and all when it is asked for', async () => {
  expect(await collections(() => collectAfter(4 * MIB))).toContain(constants.NODE_PERFORMANCE_GC_MINOR)
  expect(await collections(() => collectPassed(512 * MIB))).toContain(constants.NODE_PERFORMANCE_GC_MAJOR)
  expect(await collections(collectAll)).toContain(constants.NODE_PERFORMANCE_GC_MAJOR)
})

/** Rooms of the young ones in a process of its own, each after that step. */
function rooms(steps: string): number[] {
  const program = `
    import { collectAll, collectUnused, keepHeapSmall, keepYoungLimited, makeRoom, youngRoom } from ${JSON.stringify(join(DIST, 'src/shared/platform/collect.js'))}
    import { setImmediate, setTimeout } from 'node:timers/promises'
    const live = []
    let count = 0
    const busy = async (turns = 300) => {
      for (let turn = 0; turn < turns; turn++) {
        for (let i = 0; i < 10_000; i++) live[count++ % 20_000] = { i, text: [i] }
        await setImmediate()
      }
      return youngRoom()
    }
    console.log(JSON.stringify(await (async () => { ${steps} })()))`
  return JSON.parse(
    execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }),
  ) as number[]
}

it('a heap that is kept small has room for many young ones when there are many, and no more, also after it was asked for collections', () => {
  const [before = 0, first = 0, again = 0] = rooms(`
    const before = youngRoom()
    keepHeapSmall()
    keepYoungLimited()
    collectAll()
    const first = await busy()
    collectUnused()
    return [before, first, await busy()]`)
  expect(before).toBeLessThanOrEqual(2 * MIB)
  for (const room of [first, again]) {
    expect(room).toBeGreaterThanOrEqual(8 * MIB)
    expect(room).toBeLessThanOrEqual(12 * MIB)
  }
})

it('what the young ones have had too much before is taken from them again while much is done', () => {
  const [before = 0, after = 0] = rooms(`
    const all = Array.from({ length: 3_000_000 }, (_, i) => ({ i })) // within one turn
    const before = youngRoom()
    keepHeapSmall()
    keepYoungLimited()
    for (let i = 0; i < 50 && youngRoom() > 12 * 1024 * 1024; i++) {
      all.length = 0
      for (let k = 0; k < 100_000; k++) all.push({ k }) // has V8 collect all
      await busy()
    }
    return [before, youngRoom()]`)
  expect(before).toBeGreaterThan(12 * MIB)
  expect(after).toBeLessThanOrEqual(12 * MIB)
})

it('room that the young ones of a busy time have had is given back to whoever needs much, and they get it again when they are many', async () => {
  const [during = 0, over = 0, few = 0, many = 0] = rooms(`
    const stays = Array.from({ length: 200_000 }, (_, i) => ({ i, text: [i] })) // a heap as large as one that does something
    keepHeapSmall()
    keepYoungLimited()
    collectAll()
    await busy()
    await makeRoom()
    const during = youngRoom()
    await setTimeout(200) // the time is over
    await makeRoom()
    const over = youngRoom()
    for (let i = 0; i < 20; i++) {
      await busy(1)
      await setTimeout(50)
    }
    const few = youngRoom()
    return [during, over, few, await busy(), stays.length]`)
  expect(during).toBeGreaterThanOrEqual(8 * MIB)
  expect(over).toBeLessThanOrEqual(4 * MIB)
  expect(few).toBeLessThanOrEqual(4 * MIB)
  expect(many).toBeGreaterThanOrEqual(8 * MIB)
})
