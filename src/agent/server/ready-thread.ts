import { parentPort, workerData } from 'node:worker_threads'
import { RE2JS } from 're2js'
import type { DoneRule } from '../../shared/protocol/server-spec.ts'

// The thread in which lines of games meet the rules of templates: neither can hold up the agent. It ends when it is
// terminated, in the middle of a match as well.

/** Lines to look at, by these rules. */
export interface MatchJob {
  readonly rules: readonly (DoneRule | null)[]
  readonly stripAnsi: boolean
  readonly lines: readonly string[]
}

/** How far a job has come: `looked` lines were looked at, and `found` is the first one that matched. */
export interface MatchAnswer {
  readonly looked: number
  readonly found: number | null
  /** Rules that are no valid expressions. */
  readonly invalid: readonly number[]
  readonly spentMs: number
}

/** What the thread is given: a count of the matches that it has begun, and the rule of the newest one. */
export interface MatchProgress {
  readonly progress: SharedArrayBuffer
}

/** An expression sees no more of a line. */
const REGEX_CHARACTERS = 4096
/** A job is given back after this time, so that lines of other servers have their turn. */
const TURN_MS = 50
const MOST_COMPILED = 500

type Test = (line: string) => boolean

const { progress } = workerData as MatchProgress // what the agent starts it with
const counters = new Int32Array(progress)
const compiled = new Map<string, Test | null>()

parentPort?.on('message', (job: MatchJob) => parentPort?.postMessage(look(job)))

function look({ rules, stripAnsi, lines }: MatchJob): MatchAnswer {
  const begun = performance.now()
  const spent = (): number => performance.now() - begun
  const invalid = new Set<number>()
  for (const [at, line] of lines.entries()) {
    const text = stripAnsi ? withoutAnsi(line) : line
    for (const [number, rule] of rules.entries()) {
      if (rule === null) continue
      Atomics.store(counters, 1, number)
      Atomics.add(counters, 0, 1)
      const test = testOf(rule)
      if (test === null) invalid.add(number)
      else if (test(text)) return { looked: at + 1, found: at, invalid: [...invalid], spentMs: spent() }
    }
    if (spent() > TURN_MS) return { looked: at + 1, found: null, invalid: [...invalid], spentMs: spent() }
  }
  return { looked: lines.length, found: null, invalid: [...invalid], spentMs: spent() }
}

function testOf(rule: DoneRule): Test | null {
  if (rule.kind === 'contains') return (line) => line.includes(rule.value)
  const known = compiled.get(rule.value)
  if (known !== undefined) return known
  if (compiled.size >= MOST_COMPILED) compiled.clear()
  const test = compile(rule.value)
  compiled.set(rule.value, test)
  return test
}

function compile(expression: string): Test | null {
  try {
    const pattern = RE2JS.compile(expression)
    return (line) => pattern.matcher(line.slice(0, REGEX_CHARACTERS)).find()
  } catch {
    return null // reported as invalid
  }
}

/** A line without escape sequences. */
function withoutAnsi(line: string): string {
  if (!line.includes('\u001b')) return line
  // CSI sequences, OSC sequences up to BEL or ST, and two-character escapes.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are made of control characters
  return line.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g, '')
}
