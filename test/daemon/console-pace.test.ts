import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type ConsoleReader, range } from './console-reader.ts'
import { ConsoleStage } from './console-stage.ts'
import { leapingClock } from './leaping-clock.ts'

const MINUTE = 60_000
const STALLED = 5 * MINUTE
/** How long a feed waits for its viewers. */
const HOLD = 250

const clock = leapingClock()
let stage: ConsoleStage
beforeAll(async () => {
  stage = await ConsoleStage.open(clock)
})
afterAll(() => stage.panel.close())
beforeEach(() => stage.begin())
afterEach(() => stage.end())

/** Puts the clock forward until that is so; answers how long that took by the clock. */
async function timeUntil(what: string, isSo: () => boolean): Promise<number> {
  const began = clock.monotonicMs()
  for (const deadline = performance.now() + 20_000; !isSo(); clock.leap(250)) {
    if (performance.now() > deadline) throw new Error(`waited in vain for ${what}`)
    await stage.logs({ lines: 1 }) // as long as a request takes, what may be sent now is on its way
  }
  return clock.monotonicMs() - began
}

/** How long it takes by the clock until the viewer has so many lines. */
const timeToRead = (reader: ConsoleReader, lines: number): Promise<number> =>
  timeUntil(`${lines} lines`, () => reader.seqs.length >= lines)

test('sends a viewer no more lines in a second than the setting says, and leaves none out', async () => {
  await stage.panel.configure('console.outputLinesPerSecond', 100)
  stage.peer.log(stage.game.id).append(3000)
  const behind = stage.watch('?lines=2000')
  // The last page may be sent when the ones before it are paid for.
  expect(await timeToRead(behind, 2000)).toBeGreaterThan(13_000)
  expect(behind.seqs).toEqual(range(1001, 3000))

  const live = stage.watch('?lines=0')
  await live.until('the greeting', (r) => r.of('connected')[0])
  for (let i = 0; i < 20; i++) {
    stage.peer.say(stage.game.id, 100)
    await stage.logs({ lines: 1 })
  }
  expect(await timeToRead(live, 2000)).toBeGreaterThan(13_000)
  expect(live.seqs).toEqual(range(3001, 5000))
  await stage.panel.configure('console.outputLinesPerSecond', 1_000_000)
})

test('sends a viewer no more bytes in a second than the setting says', async () => {
  await stage.panel.configure('console.outputBytesPerSecond', 65_536)
  const wide = 'x'.repeat(2000)
  stage.peer.log(stage.game.id).append(500, () => wide)
  const reader = stage.watch('?lines=500')
  expect(await timeToRead(reader, 500)).toBeGreaterThan(13_000)
  expect(reader.seqs).toEqual(range(1, 500))
  await stage.panel.configure('console.outputBytesPerSecond', 1_073_741_824)
})

test('a limit that is raised holds for what waits already, of viewers and of their feed', async () => {
  const { id } = stage.game
  await stage.panel.configure('console.outputLinesPerSecond', 100)
  stage.peer.log(id).append(3000)
  const behind = stage.watch('?lines=2000')
  await behind.until('the first page', ({ seqs }) => seqs.length > 300)
  const live = stage.watch('?lines=0')
  await live.until('the greeting', (r) => r.of('connected')[0])
  stage.peer.say(id, 1500)
  await live.until('the first lines', ({ seqs }) => seqs.length > 0)
  await stage.panel.configure('console.outputLinesPerSecond', 1_000_000)
  const { last } = stage.peer.log(id)
  const isAcknowledged = (): boolean => stage.peer.of('console.ack').some(({ seq }) => seq === last)
  const times = [
    await timeToRead(behind, last - 1000),
    await timeToRead(live, 1500),
    await timeUntil('the word to the agent', isAcknowledged),
  ]
  expect(times.reduce((sum, ms) => sum + ms)).toBeLessThan(4000)
  expect(behind.seqs).toEqual(range(1001, last))
  expect(live.seqs).toEqual(range(3001, last))
})

test('a feed waits a moment for one viewer at least to take what was passed on, and then goes on', async () => {
  const { id } = stage.game
  stage.peer.log(id).append(1)
  const reader = stage.watch()
  await reader.until('the first line', ({ seqs }) => seqs.length === 1)
  const isStuck = clock.sleepers(STALLED)
  reader.pause()
  const wide = 'x'.repeat(1900)
  const isFull = (): boolean => clock.sleepers(STALLED) === isStuck + 1
  for (let i = 0; i < 40 && !isFull(); i++) {
    stage.peer.say(id, 400, (seq) => `${seq} ${wide}`)
    await stage.logs({ lines: 1 })
  }
  await stage.peer.until('the viewer to be stuck', isFull)
  await stage.peer.until('the feed to wait for it', () => {
    stage.peer.say(id, 100, (seq) => `${seq} ${wide}`)
    return clock.sleepers(HOLD) === 1
  })
  reader.resume()
  const { last } = stage.peer.log(id)
  await reader.until('all lines', ({ seqs }) => seqs.at(-1) === last)
  expect(reader.seqs).toEqual(range(1, last))
  await stage.peer.until('their acknowledgement', () => stage.peer.of('console.ack').some(({ seq }) => seq === last))
})

test('ends the stream of a viewer that takes nothing for five minutes, which resumes where it was', {
  tags: ['long'],
}, async () => {
  const id = stage.game.id
  stage.peer.log(id).append(1)
  const [stalled, patient] = [stage.watch(), stage.watch()]
  for (const one of [stalled, patient]) {
    await one.until('the first line', ({ seqs }) => seqs.length === 1)
    one.pause()
  }
  const isStuck = clock.sleepers(STALLED)
  const wide = 'x'.repeat(1900)
  // More than the sockets of both take.
  for (let i = 0; i < 20; i++) stage.peer.say(id, 400, (seq) => `${seq} ${wide}`)
  await stage.peer.until('both to be stuck', () => clock.sleepers(STALLED) === isStuck + 2)
  clock.leap(STALLED - 10_000)
  await stage.logs({ lines: 1 })
  patient.resume()
  await patient.until('all lines', ({ seqs }) => seqs.at(-1) === 8001)
  expect(patient.seqs).toEqual(range(1, 8001))
  expect(patient.of('error')).toEqual([])

  clock.leap(STALLED)
  await stage.peer.until('the end of the stalled one', () => clock.sleepers(STALLED) === isStuck)
  stalled.resume()
  await stalled.until('the end of the stream', ({ ended }) => ended)
  expect(stalled.frames.at(-1)).toMatchObject({ event: 'error', data: { error: 'slow_consumer' } })
  const seen = stalled.seqs.at(-1) ?? 0
  expect(stalled.seqs).toEqual(range(1, seen))
  expect(seen).toBeLessThan(8001)
  const again = stage.watch('', { 'last-event-id': `epocha-${seen}` })
  await again.until('the rest', ({ seqs }) => seqs.at(-1) === 8001)
  expect(again.seqs).toEqual(range(seen + 1, 8001))
})
