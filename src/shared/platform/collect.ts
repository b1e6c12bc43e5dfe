import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** So much may wait to be collected. */
const MOST_BYTES = 4 * 1024 * 1024

/** After so many bytes that have passed, what has become old among them. */
const MOST_PASSED_BYTES = 512 * 1024 * 1024

/** Without options it collects all; Node 20 collects only the young ones by any options, also by `{ type: 'major' }`. */
type Collect = (options?: { readonly type: 'minor' }) => void

let waiting = 0
let passed = 0
let collect: Collect | undefined

/**
 * Counts bytes outside of the collector's heap that nobody needs any more, and has them collected when they are many: V8 itself waits until
 * there are some 40 MiB of them, which is more than a backup or a transfer may take. A collection of the young ones takes about a millisecond.
 */
export function collectAfter(bytes: number): void {
  waiting += bytes
  if (waiting < MOST_BYTES) return
  waiting = 0
  run({ type: 'minor' })
}

/**
 * The same for bytes that pass a process whose heap is small, such as an agent's. Some of them wait for a slow reader until they count as old, and then
 * stay: after many bytes all of the heap is collected, which takes some ten milliseconds.
 */
export function collectPassed(bytes: number): void {
  collectAfter(bytes)
  passed += bytes
  if (passed < MOST_PASSED_BYTES) return
  passed = 0
  run()
}

/** After so many collections V8 forgets what it has made of a function that was not called in between. */
const V8_OLD_AGE = 5

/** How much more than what was in use V8 lets a heap become before it looks for garbage again, in percent. */
const GROWS_PERCENT = 20

/**
 * When V8 begins to mark what is in use, in percent of the way to that limit. By itself it begins when what is left is less than the room of the
 * young ones, which in a heap that may grow by so little is right after the collection before: it would mark all the time.
 */
const MARKED_FROM_PERCENT = 95

/**
 * Keeps the heap of this process small from now on: V8 by itself lets it become twice as large as it has to be. It costs a collection
 * beside the work every few seconds while much is done. The room of the young ones stays V8's own: with less than what hundreds of requests
 * use at once, each costs twice as much.
 */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWS_PERCENT}`)
  setFlagsFromString(`--incremental-marking-soft-trigger=${MARKED_FROM_PERCENT}`)
  setFlagsFromString(`--incremental-marking-hard-trigger=${MARKED_FROM_PERCENT}`)
}

/** Collects all garbage now, such as that of a start, and lets V8 see from where the heap grows; it takes some ten milliseconds. */
export function collectAll(): void {
  run()
}

/**
 * The same, and with it what V8 has made of functions that nothing has called since the collection before, such as those of a start: it makes them anew
 * from their text when they are called again. By itself it waits for some collections more, which come hours later where little is done.
 */
export function collectUnused(): void {
  setFlagsFromString('--bytecode-old-age=1')
  setFlagsFromString('--optimize-for-size') // objects are moved together where a fifth of a page is free, not only where most of it is
  run()
  setFlagsFromString('--no-optimize-for-size')
  setFlagsFromString(`--bytecode-old-age=${V8_OLD_AGE}`)
}

let holders = 0

/** What work leaves behind, such as its report, is read right after its end. */
const READ_MS = 30_000

/**
 * Keeps the room of the young ones as it is for as long as work goes on that makes much garbage for hours beside other work: V8 by itself would
 * let it become 16 MiB twice, and the rest of the heap as much larger. Begins with a collection, by which V8 sees from where the heap
 * grows. Answers what ends it, half a minute later.
 */
export function keepYoungSmall(): () => void {
  holders += 1
  if (holders === 1) run()
  let isOver = false
  return () => {
    if (isOver) return
    isOver = true
    setTimeout(() => {
      holders -= 1
      if (holders === 0) growYoung(true)
    }, READ_MS).unref()
  }
}

/** The bytes that V8 keeps for young objects. */
export function youngRoom(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.space_size ?? 0
}

/**
 * V8 takes what outlives a collection as a sign that the young ones need more room, up to 16 MiB that it keeps for a minute. A thousand collections that were
 * asked for are no such sign.
 */
function run(...options: Parameters<Collect>): void {
  collect ??= collector()
  growYoung(false)
  collect(...options)
  if (holders === 0) growYoung(true)
}

function growYoung(may: boolean): void {
  setFlagsFromString(`--semi-space-growth-factor=${may ? 2 : 1}`) // 2 is V8's own
}

function collector(): Collect {
  // The call exists only in contexts that are made while the flag is set.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect // V8's own, by the flag
  setFlagsFromString('--no-expose-gc')
  return collect
}
