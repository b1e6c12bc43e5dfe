import { afterEach, beforeEach, expect, test } from 'vitest'
import { Rounds } from '../../src/agent/rounds.ts'
import { ShiftingClock } from './inner-agent.ts'

let clock: ShiftingClock
let sleeps: number
let rounds: Rounds
let ending: AbortController

beforeEach(() => {
  clock = new ShiftingClock()
  sleeps = 0
  ending = new AbortController()
  rounds = new Rounds({
    nowMs: () => clock.nowMs(),
    monotonicMs: () => clock.monotonicMs(),
    sleep: (ms, signal) => {
      sleeps++
      return clock.sleep(ms, signal)
    },
  })
})
afterEach(() => ending.abort())

test('all that wait for a minute go on at the same moment, by one timer', async () => {
  const at: number[] = []
  const waits = Array.from({ length: 500 }, async () => {
    await rounds.next(60_000, AbortSignal.any([ending.signal]))
    at.push(clock.monotonicMs())
  })
  expect(sleeps).toBe(1)
  clock.pass(60_000)
  await Promise.all(waits)
  expect(Math.max(...at) - Math.min(...at)).toBeLessThan(1000)
})

test('who waits for two seconds does not have others go on before their time', async () => {
  let isMinuteOver = false
  // Not from the very end of a minute on.
  if (60_000 - (clock.monotonicMs() % 60_000) < 20_000) clock.pass(30_000)
  const minute = rounds.next(60_000, ending.signal).then(() => {
    isMinuteOver = true
  })
  for (let i = 0; i < 3; i++) {
    const next = rounds.next(2000, ending.signal)
    clock.pass(2000)
    await next
  }
  expect(isMinuteOver).toBe(false)
  clock.pass(60_000)
  await minute
})

test('who is called off goes on at once', async () => {
  const wait = rounds.next(60_000, ending.signal)
  const other = rounds.next(2000, ending.signal)
  ending.abort()
  await Promise.all([wait, other])
  await rounds.next(60_000, ending.signal)
})
