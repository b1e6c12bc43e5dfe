import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { Rig, texts, until } from './rig.ts'

const IDLE_MS = 10_000
const WINDOWS = 4
const KIB_OF_AN_IDLE_HOLDER = 5.7 * 1024
const SAY_ON_SIGNAL = 'trap "echo heard" USR1; echo ready; while :; do sleep 1000 & wait $!; done'

let rig: Rig

beforeEach(() => {
  rig = new Rig()
})
afterEach(() => rig.close(), 30_000)

describe('the holder of a game that says nothing', () => {
  it('gives back what the start needed, wakes hardly ever, and hears the next line and the end at once', async () => {
    const place = rig.place('idle')
    const run = await rig.start(place, ['/bin/sh', '-c', SAY_ON_SIGNAL])
    const holder = await rig.holderPid(place)
    await until('the memory of the start to be given back', () => ownKib(holder) < KIB_OF_AN_IDLE_HOLDER)
    // V8 follows with two rounds of its own within half a minute; then nothing is left to do.
    const counts: number[] = []
    for (let window = 0; window < WINDOWS; window++) {
      const before = wakeups(holder)
      await systemClock.sleep(IDLE_MS)
      counts.push(wakeups(holder) - before)
    }
    expect(Math.min(...counts)).toBeLessThan(10)
    await run.signal('SIGUSR1')
    await until('the line', async () => (await texts(place)).includes('heard'))
    process.kill(run.record.pid, 'SIGKILL')
    const killedAtMs = systemClock.nowMs()
    const exit = await run.exited
    expect(exit.signal).toBe('SIGKILL')
    expect(systemClock.nowMs() - killedAtMs).toBeLessThan(2000)
  }, 90_000)
})

/** What a process has for itself alone. */
function ownKib(pid: number): number {
  return Number(/^Pss_Anon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'latin1'))?.[1])
}

/** How often its threads have been put on a processor. */
function wakeups(pid: number): number {
  const statuses = readdirSync(`/proc/${pid}/task`).map((id) =>
    readFileSync(`/proc/${pid}/task/${id}/status`, 'latin1'),
  )
  const counts = statuses.flatMap((text) => [...text.matchAll(/^(?:non)?voluntary_ctxt_switches:\s+(\d+)/gm)])
  return counts.reduce((sum, [, count]) => sum + Number(count), 0)
}
