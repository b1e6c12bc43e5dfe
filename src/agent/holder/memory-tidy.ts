/** How long a stretch is looked at, and how few lines in it make it a quiet one. */
const STRETCH_MS = 5000
const QUIET_LINES = 200
/** So many lines since the last time have left something behind that is worth the work. */
const WORTH_LINES = 2000
/** What V8 does in this collection and in no other. */
const FLAGS = ['stress-flush-code', 'compact-on-every-full-gc'] as const

/**
 * Gives memory back to the machine when the work that needed it is over: once after the start, and after each flood of lines. V8
 * does so by itself only while something goes on, and most holders do nothing most of the time. There is no timer meanwhile.
 */
export class MemoryTidy {
  #last = 0
  #tidiedAt = 0
  #timer: NodeJS.Timeout | undefined

  /** The program has been started. */
  started(): void {
    this.#lookLater()
  }

  /** There are lines up to this number. */
  written(last: number): void {
    if (this.#last === 0) this.#tidiedAt = last
    this.#last = last
    if (last - this.#tidiedAt >= WORTH_LINES) this.#lookLater()
  }

  stop(): void {
    clearTimeout(this.#timer)
  }

  #lookLater(): void {
    const before = this.#last
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      if (this.#last - before > QUIET_LINES) return this.#lookLater()
      this.#tidiedAt = this.#last
      try {
        tidy()
      } catch {
        // A Node without an inspector, or that does not give it away: the holder is somewhat larger.
      }
    }, STRETCH_MS)
  }
}

/** A session with the inspector, as Node's own code has it. */
interface InspectorBinding {
  readonly Connection: new (
    heard: (answer: string) => void,
  ) => {
    dispatch(message: string): void
    disconnect(): void
  }
}

/**
 * Collects garbage as V8 does when the machine is short of memory, which its inspector can ask for, moves together what is left, and
 * forgets what was compiled for a start: the little that is called again is compiled again. The modules are taken from Node by name: an
 * `import` while the program runs has Node load its whole loader of modules, and `node:inspector` has it load all that threads need.
 */
function tidy(): void {
  const { setFlagsFromString } = process.getBuiltinModule('node:v8')
  // The types of Node do not name it any more; a Node that does not have it throws.
  const { binding } = process as NodeJS.Process & { binding(name: 'inspector'): InspectorBinding }
  const { Connection } = binding('inspector')
  const connection = new Connection(() => {
    for (const flag of FLAGS) setFlagsFromString(`--no-${flag}`)
    // Not from within: the answer is given under the lock that the end of a session takes.
    setImmediate(() => connection.disconnect())
  })
  for (const flag of FLAGS) setFlagsFromString(`--${flag}`)
  connection.dispatch(JSON.stringify({ id: 1, method: 'HeapProfiler.collectGarbage' }))
}
