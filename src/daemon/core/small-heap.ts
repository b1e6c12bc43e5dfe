import { setFlagsFromString } from 'node:v8'

/** How much more than what was in use V8 lets a heap become before it looks for garbage again, in percent. */
const GROWS_PERCENT = 20

let holders = 0

/**
 * Keeps the heap small for as long as work goes on that makes much garbage for hours: V8 by itself lets it become twice as large as it has to be. It
 * costs a collection beside the work every few seconds. Answers what ends it.
 */
export function keepHeapSmall(): () => void {
  if (holders++ === 0) setFlagsFromString(`--heap-growing-percent=${GROWS_PERCENT}`)
  let isOver = false
  return () => {
    if (isOver) return
    isOver = true
    if (--holders === 0) setFlagsFromString('--heap-growing-percent=0') // as V8 thinks right
  }
}
