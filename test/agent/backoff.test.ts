import { describe, expect, it } from 'vitest'
import { Backoff } from '../../src/agent/link/backoff.ts'
import { backOff, classifyExit } from '../../src/agent/server/crash.ts'
import { freshFacts } from '../../src/agent/state/journal-record.ts'
import { gameSpec } from './agent-stage.ts'

const cut = { code: 1006, retryAfterMs: null, readyMs: 0 }

describe('the wait before the next connection', () => {
  it('is at most a second for ten attempts, then doubles to half a minute, and begins anew after ten seconds of being ready', () => {
    const most = new Backoff(() => 1)
    expect(Array.from({ length: 16 }, () => most.next(cut))).toEqual([
      500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000,
    ])
    expect(most.next({ ...cut, readyMs: 9_900 })).toBe(30_000)
    expect(most.next({ ...cut, readyMs: 10_000 })).toBe(500)
    const least = new Backoff(() => 0)
    expect(least.next(cut)).toBe(0)
  })

  it('is long for a refused key, a replaced node and a wrong version', () => {
    const backoff = new Backoff(() => 0.5)
    const delayAfter = (code: number): number => backoff.next({ ...cut, code })
    expect([
      delayAfter(4401),
      delayAfter(401),
      delayAfter(403),
      delayAfter(4401),
      delayAfter(4401),
      delayAfter(4401),
    ]).toEqual([60_000, 120_000, 240_000, 480_000, 900_000, 900_000])
    expect(delayAfter(4409)).toBe(300_000)
    expect([delayAfter(4426), delayAfter(426)]).toEqual([600_000, 600_000])
    expect(backoff.next({ code: 429, retryAfterMs: 7000, readyMs: 0 })).toBeGreaterThanOrEqual(7000)
  })
})

describe('the judgement of an exit', () => {
  const exit = {
    launchId: 'l',
    kind: 'game' as const,
    code: 1,
    signal: null,
    oom: false,
    ordered: false,
    by: null,
    endedAtMs: 10_000_000,
    uptimeMs: 1000,
    lastSeq: 1,
  }
  const classify = (crashes: number[], readyAtMs: number | null) =>
    classifyExit({
      spec: gameSpec('srv_a', 1),
      facts: {
        ...freshFacts(),
        crashes,
        launch: { id: 'l', kind: 'game', bootId: 'b', ended: false, exit: null, readyAtMs, stopAtMs: null },
      },
      exit,
      ordered: false,
      isBad: true,
      nowMs: 10_000_000,
      random: () => 0,
    })

  it('waits two seconds, then twice as long each time, up to five minutes', () => {
    expect([1, 2, 3, 4].map((count) => backOff(count, () => 0))).toEqual([2000, 4000, 8000, 16000])
    expect(backOff(30, () => 0.99)).toBe(300_000)
  })

  it('gives up at the fifth crash within ten minutes, and counts no older ones', () => {
    const near = [1, 2, 3, 4].map((minutes) => 10_000_000 - minutes * 60_000)
    expect(classify(near, null)).toMatchObject({ gaveUp: true, restartInMs: null })
    const far = [11, 12, 13, 14].map((minutes) => 10_000_000 - minutes * 60_000)
    expect(classify(far, null)).toMatchObject({ gaveUp: false, restartInMs: 2000, crashes: [10_000_000] })
  })

  it('forgives earlier crashes after five minutes of running', () => {
    const near = [1, 2, 3, 4].map((minutes) => 10_000_000 - minutes * 60_000)
    expect(classify(near, 10_000_000 - 299_000).gaveUp).toBe(true)
    expect(classify(near, 10_000_000 - 300_000)).toMatchObject({ gaveUp: false, crashes: [10_000_000] })
  })
})
