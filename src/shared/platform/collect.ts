import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** So much may wait to be collected. */
const MOST_BYTES = 4 * 1024 * 1024

/** After so many bytes that have passed, what has become old among them. */
const MOST_PASSED_BYTES = 512 * 1024 * 1024

type Collect = (options: { readonly type: 'minor' | 'major' }) => void

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
  run('minor')
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
  run('major')
}

/**
 * V8 takes what outlives a collection as a sign that the young ones need more room, up to 16 MiB that it keeps for a minute. A thousand collections that were
 * asked for are no such sign.
 */
function run(type: 'minor' | 'major'): void {
  collect ??= collector()
  setFlagsFromString('--semi-space-growth-factor=1')
  collect({ type })
  setFlagsFromString('--semi-space-growth-factor=2') // as V8 begins
}

function collector(): Collect {
  // The call exists only in contexts that are made while the flag is set.
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as Collect // V8's own, by the flag
  setFlagsFromString('--no-expose-gc')
  return collect
}
