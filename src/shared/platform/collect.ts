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
const MARKED_FROM_PERCENT = 80
/** The same where young ones are few: there is time for more collections. */
const MARKED_EARLY_PERCENT = 40

/**
 * So much room the young ones may have, in both halves together. V8 by itself goes up to 32 MiB. Of requests that are worked on a few at a time, a collection
 * of less finds as little alive; those of hundreds at once it would copy again and again.
 */
const MOST_YOUNG_BYTES = 12 * 1024 * 1024

/** What is enough for them where they are few. */
const FEW_YOUNG_BYTES = 4 * 1024 * 1024

/** So many young bytes within {@link COUNTED_MS} are many: a processor that does nothing but answer makes twice as many and more, one that hashes passwords a third. */
const MANY_YOUNG_BYTES = 64 * 1024 * 1024
const COUNTED_MS = 1000

/**
 * Keeps the heap of this process small from now on: V8 by itself lets it become twice as large as it has to be. It costs a collection
 * beside the work every few seconds while much is done. The young ones are collected by this thread alone: several that wait for each other take
 * more of a machine that has other things to do.
 */
export function keepHeapSmall(): void {
  set('parallel-scavenge', false)
  set('heap-growing-percent', GROWS_PERCENT)
  markFrom(MARKED_FROM_PERCENT)
}

function markFrom(percent: number): void {
  set('incremental-marking-soft-trigger', percent)
  set('incremental-marking-hard-trigger', percent)
}

/**
 * Keeps the room of the young ones small too, from now on: {@link MOST_YOUNG_BYTES} at most and, where they are few after {@link giveBackYoung},
 * {@link FEW_YOUNG_BYTES}, but for what one turn of the event loop takes. Not while a program starts, which makes much that stays.
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
/** The room that the young ones may have now. */
let mostYoung = MOST_YOUNG_BYTES
/** When the latest collection that is known began, by `performance.now`. */
let latestMs = 0
/** How many young bytes there have been since {@link countedSinceMs}. */
let youngBytes = 0
let countedSinceMs = 0
/** Whether the next collection of all that V8 begins by itself moves old objects together. */
let isCompacting = false

/**
 * Sees each collection, after which the young ones may have another room than they are to have: V8 takes some away when it finds it filled slowly, and says so to
 * nobody. Costs some hundredths of a collection.
 */
const watched = new PerformanceObserver((list) => {
  const room = youngRoom()
  for (const { startTime, detail } of list.getEntries() as GcEntry[]) {
    latestMs = startTime
    if (detail?.kind === constants.NODE_PERFORMANCE_GC_MINOR) countYoung(startTime, room)
    else isCompacting = false // from when V8 marks: at the end of that it would take room from the young ones
    if (detail?.kind === constants.NODE_PERFORMANCE_GC_MAJOR) onCollected?.()
  }
  keepToRoom(room)
})

/** As Node documents entries of `gc`. */
type GcEntry = PerformanceEntry & { readonly detail?: { readonly kind?: number } }

/** A collection of the young ones: as many have come since the one before as one half of their room takes. */
function countYoung(atMs: number, room: number): void {
  if (atMs < countedSinceMs) return
  if (atMs - countedSinceMs > COUNTED_MS) {
    youngBytes = 0
    countedSinceMs = atMs
  }
  youngBytes += room / 2
  if (youngBytes > MANY_YOUNG_BYTES) mostYoung = MOST_YOUNG_BYTES
}

/** Lets the young ones, which have this `room`, have more until they have enough, by one step, and less when they have had too much. */
function keepToRoom(room = isLimited ? youngRoom() : 0): void {
  const half = Math.max(room / 2, LEAST_HALF)
  const growth = isLimited ? Math.max(Math.floor(mostYoung / 2 / half), 1) : V8_GROWTH
  set('semi-space-growth-factor', holders > 0 ? 1 : growth)
  // The collections of all that V8 begins by itself then also take room from the young ones, and move old objects together.
  const isQuiet = isLimited && mostYoung === FEW_YOUNG_BYTES
  set('optimize-for-size', isQuiet || room > mostYoung || isCompacting)
  if (isLimited) markFrom(isQuiet ? MARKED_EARLY_PERCENT : MARKED_FROM_PERCENT)
}

/** So many bytes between old objects are worth moving these together. */
const MOST_SCATTERED_BYTES = 6 * 1024 * 1024

/**
 * Has old objects moved together in the next collection of all, while there is much room between them: what comes and goes at high rates leaves some of each page, and V8 by itself looks at
 * pages of which most is free. For a time that is busy. Answers whether there is.
 */
export function compactScattered(): boolean {
  const { space_size = 0, space_used_size = 0 } = spaceOf('old_space') ?? {}
  if (!isLimited || space_size - space_used_size < MOST_SCATTERED_BYTES) return false
  isCompacting = true
  keepToRoom()
  return true
}

/** A busy time is over when V8 has collected nothing for so long: in a busy time its collections are closer together. */
const OVER_MS = 100
/** Room is made so often at most: a daemon that is busy now and then is not held up by it each time. */
const ROOM_EACH_MS = 2000
/** A collection that takes longer is not waited for. */
const WAIT_MS = 250

let roomMadeMs = Number.NEGATIVE_INFINITY
/** Called when all has been collected. */
let onCollected: (() => void) | undefined

/**
 * Gives back what the young ones of a busy time have had, when that is over: for whoever is about to take many megabytes for a moment. Resolves when it is given back,
 * a quarter of a second later at most, and at once where there is nothing to give back, or another one has asked within the last two seconds.
 */
export async function makeRoom(): Promise<void> {
  const now = performance.now()
  if (now - latestMs < OVER_MS || now - roomMadeMs < ROOM_EACH_MS || !giveBackYoung()) return
  roomMadeMs = now
  await new Promise<void>((resolve) => {
    const late = setTimeout(resolve, WAIT_MS)
    onCollected = () => {
      onCollected = undefined
      clearTimeout(late)
      resolve()
    }
  })
}

/** Gives back what the young ones have had in a time that is over, unless that is little; answers whether it does. */
export function giveBackYoung(): boolean {
  if (!isLimited || youngRoom() <= FEW_YOUNG_BYTES) return false
  mostYoung = FEW_YOUNG_BYTES
  youngBytes = 0
  countedSinceMs = performance.now()
  collectBeside()
  return true
}

/**
 * Begins a collection of all beside the work, which is held up for some milliseconds in all: it takes room from the young ones and moves old objects together. V8 looks whether it
 * is time to mark after each collection of the young ones.
 */
function collectBeside(): void {
  keepToRoom()
  markFrom(1)
  ballast.push(new Array(BALLAST_WORDS).fill(0))
  run({ type: 'minor' })
  ballast.length = 0
}

/**
 * V8 does not mark a heap that has not grown since all was collected. An object of so many words of 8 bytes becomes old in the first collection of the young
 * ones, and is growth enough.
 */
const BALLAST_WORDS = 64 * 1024
const ballast: unknown[] = []

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
  keepToRoom() // takes back what was set for this collection
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
