import { constants, type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks'
import { getHeapSpaceStatistics, type HeapSpaceInfo, setFlagsFromString } from 'node:v8'
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
const GROWS_PERCENT = 10

/**
 * When V8 begins to mark what is in use, in percent of the way to that limit. By itself it begins when what is left is less than the room of the
 * young ones, which in a heap that may grow by so little is right after the collection before: it would mark all the time.
 */
const MARKED_FROM_PERCENT = 95

/**
 * So much room the young ones may have, in both halves together. V8 by itself goes up to 32 MiB. Of requests that are worked on a few at a time, a collection
 * of less finds as little alive; those of hundreds at once it would copy again and again.
 */
const MOST_YOUNG_BYTES = 12 * 1024 * 1024

/**
 * Keeps the heap of this process small from now on: V8 by itself lets it become twice as large as it has to be. It costs a collection
 * beside the work every few seconds while much is done.
 */
export function keepHeapSmall(): void {
  setFlagsFromString(`--heap-growing-percent=${GROWS_PERCENT}`)
  setFlagsFromString(`--incremental-marking-soft-trigger=${MARKED_FROM_PERCENT}`)
  setFlagsFromString(`--incremental-marking-hard-trigger=${MARKED_FROM_PERCENT}`)
}

/**
 * Keeps the room of the young ones small too, from now on: {@link MOST_YOUNG_BYTES} at most, but for what one turn of the event loop takes. Not while a
 * program starts, which makes much that stays.
 */
export function keepYoungLimited(): void {
  isLimited = true
  watched.observe({ entryTypes: ['gc'] })
  keepToRoom()
}

/**
 * Collects all garbage now, such as that of a start, moves what is left together, and lets V8 see from where the heap grows; it takes some ten milliseconds.
 */
export function collectAll(): void {
  set('optimize-for-size', true) // objects are moved together where a fifth of a page is free, not only where most of it is
  run()
}

/**
 * The same, and with it what V8 has made of functions that nothing has called since the collection before, such as those of a start: it makes them anew
 * from their text when they are called again. By itself it waits for some collections more, which come hours later where little is done.
 */
export function collectUnused(): void {
  setFlagsFromString('--bytecode-old-age=1')
  collectAll()
  setFlagsFromString(`--bytecode-old-age=${V8_OLD_AGE}`)
}

/** V8's own factor by which the room of the young ones grows, and with how much of each half it begins. */
const [V8_GROWTH, LEAST_HALF] = [2, 1024 * 1024]

/** Whether the room of the young ones is limited in this process. */
let isLimited = false
/** Whether the next collection of all that V8 begins by itself moves old objects together. */
let isCompacting = false

/**
 * Sees each collection, after which the young ones may have another room than they are to have: V8 takes some away when it finds it filled slowly, and says so to
 * nobody. Costs a hundredth of a collection.
 */
const watched = new PerformanceObserver((list) => {
  if (list.getEntries().some(isOfAll)) isCompacting = false
  keepToRoom()
})

/** Whether it was more than a collection of the young ones; `detail` as Node documents it. */
function isOfAll({ detail }: PerformanceEntry & { readonly detail?: { readonly kind?: number } }): boolean {
  return detail?.kind !== constants.NODE_PERFORMANCE_GC_MINOR
}

/** Lets the young ones have more room until they have enough, by one step, and less when they have had too much. */
function keepToRoom(): void {
  const room = isLimited ? youngRoom() : 0
  const half = Math.max(room / 2, LEAST_HALF)
  const growth = isLimited ? Math.max(Math.floor(MOST_YOUNG_BYTES / 2 / half), 1) : V8_GROWTH
  set('semi-space-growth-factor', holders > 0 ? 1 : growth)
  // The collections that V8 begins by itself then also take room from the young ones.
  set('optimize-for-size', room > MOST_YOUNG_BYTES || isCompacting)
}

/** So many bytes between old objects are worth moving these together. */
const MOST_SCATTERED_BYTES = 10 * 1024 * 1024

/**
 * Has old objects moved together in the next collection of all, while there is much room between them: what comes and goes at high rates leaves some of each page, and V8 by itself looks at
 * pages of which most is free. For a time that is too busy for {@link collectAll}. Answers whether there is.
 */
export function compactScattered(): boolean {
  const { space_size = 0, space_used_size = 0 } = spaceOf('old_space') ?? {}
  if (!isLimited || space_size - space_used_size < MOST_SCATTERED_BYTES) return false
  isCompacting = true
  keepToRoom()
  return true
}

let holders = 0

/** What work leaves behind, such as its report, is read right after its end. */
const READ_MS = 30_000

/**
 * Keeps the room of the young ones as it is for as long as work goes on that makes much garbage for hours beside other work: V8 by itself would
 * let it become larger by the most that it may have, and the rest of the heap as much. Begins with a collection, by which V8 sees from where the heap
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
      keepToRoom()
    }, READ_MS).unref()
  }
}

/** The bytes that V8 keeps for young objects. */
export function youngRoom(): number {
  return spaceOf('new_space')?.space_size ?? 0
}

function spaceOf(name: string): HeapSpaceInfo | undefined {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === name)
}

/**
 * V8 takes what outlives a collection as a sign that the young ones need more room, up to its most, which it keeps for a minute. A thousand collections that were
 * asked for are no such sign.
 */
function run(...options: Parameters<Collect>): void {
  collect ??= collector()
  set('semi-space-growth-factor', 1)
  collect(...options)
  keepToRoom()
}

const flags = new Map<string, number | boolean>()

/** Sets an option of V8, unless it is set so already. */
function set(name: string, value: number | boolean): void {
  if (flags.get(name) === value) return
  flags.set(name, value)
  setFlagsFromString(typeof value === 'number' ? `--${name}=${value}` : `--${value ? '' : 'no-'}${name}`)
}

function collector(): Collect {
  // The call exists only in contexts that are made while the flag is set.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect // V8's own, by the flag
  setFlagsFromString('--no-expose-gc')
  return collect
}
