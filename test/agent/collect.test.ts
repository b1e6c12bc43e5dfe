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

it('a heap that is kept small has room for many young ones when there are many, also after it was asked for collections', () => {
  const program = `
    import { collectAll, collectUnused, keepHeapSmall, youngRoom } from ${JSON.stringify(join(DIST, 'src/shared/platform/collect.js'))}
    const live = []
    const busy = () => {
      for (let i = 0; i < 3_000_000; i++) live[i % 100_000] = { i, text: [i] }
      live.length = 0
      return youngRoom()
    }
    const before = youngRoom()
    keepHeapSmall()
    collectAll()
    const first = busy()
    collectUnused()
    console.log(JSON.stringify([before, first, busy()]))`
  const text = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' })
  const [before, first, again] = JSON.parse(text) as [number, number, number]
  expect(before).toBeLessThanOrEqual(2 * MIB)
  expect(first).toBeGreaterThanOrEqual(8 * MIB)
  expect(again).toBeGreaterThanOrEqual(8 * MIB)
})
