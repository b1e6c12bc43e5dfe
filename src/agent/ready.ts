import { RE2JS } from 're2js'
import type { ConsoleLine } from '../shared/frames.ts'
import type { DoneRule } from '../shared/server-spec.ts'
import { TAKEN_OVER } from './holder/holder-files.ts'
import type { Run } from './runtime/runtime.ts'
import type { GameServer } from './server.ts'

const NO_RULE_MS = 120_000
const REGEX_CHARACTERS = 4096

/** Tells whether a line says that the server is up. */
export type ReadyTest = (line: string) => boolean

/**
 * Compiles ready rules once. Expressions are of RE2's syntax, which has no exponential cases, and see at most 4 KiB of a
 * line. A rule that does not compile is reported through `invalid` and never matches.
 */
export function readyTest(rules: readonly DoneRule[], stripAnsi: boolean, invalid: (rule: string) => void): ReadyTest {
  const tests = rules.flatMap((rule): ReadyTest[] => {
    if (rule.kind === 'contains') return [(line) => line.includes(rule.value)]
    try {
      const pattern = RE2JS.compile(rule.value)
      return [(line) => pattern.matcher(line.slice(0, REGEX_CHARACTERS)).find()]
    } catch {
      invalid(rule.value) // told to the person who watches the console
      return []
    }
  })
  return (line) => {
    const text = stripAnsi ? withoutAnsi(line) : line
    return tests.some((test) => test(text))
  }
}

/** A line without escape sequences. */
export function withoutAnsi(line: string): string {
  if (!line.includes('\u001b')) return line
  // CSI sequences, OSC sequences up to BEL or ST, and two-character escapes.
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences are made of control characters
  return line.replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g, '')
}

/**
 * Waits until a starting game says that it is up, or until 120 s have passed where nothing can be counted on. True unless it
 * was called off before.
 */
export async function awaitReady(server: GameServer, run: Run, signal: AbortSignal): Promise<boolean> {
  if (server.spec.done.length > 0) await awaitLine(server, run, signal)
  // Without a rule its port says it, where it has one; without either time does.
  else if (server.spec.listens === undefined || server.spec.listens === 'none') await waitOut(server, run, signal)
  return !signal.aborted
}

async function waitOut(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const { clock } = server.context
  const age = Math.max(0, clock.nowMs() - run.record.startedAtMs)
  await clock.sleep(Math.max(0, NO_RULE_MS - age), signal)
}

/**
 * Reads the log from the run's first line, so that a line of the time when the agent was away counts as well. Where it may
 * have been lost with a holder, nobody can wait for it: then time counts too.
 */
async function awaitLine(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const invalid: string[] = []
  const test = readyTest(server.spec.done, server.spec.stripAnsi, (rule) => invalid.push(rule))
  for (const rule of invalid) await server.note(`The ready rule "${rule}" is no valid regular expression`)
  const isReady = ([, , stream, text]: ConsoleLine): boolean =>
    (stream === 'stdout' || stream === 'stderr') && test(text)
  const isGap = ([, , stream, text]: ConsoleLine): boolean => stream === 'system' && text === TAKEN_OVER
  const found = await lineOf(server, run.record.firstSeq, { wanted: (line) => isReady(line) || isGap(line), signal })
  if (found === undefined || isReady(found)) return
  await Promise.race([lineOf(server, found[0] + 1, { wanted: isReady, signal }), waitOut(server, run, signal)])
}

/** The first wanted line from `first` on; `undefined` when the game is not starting any more. */
async function lineOf(
  server: GameServer,
  first: number,
  { wanted, signal }: { readonly wanted: (line: ConsoleLine) => boolean; readonly signal: AbortSignal },
): Promise<ConsoleLine | undefined> {
  let seq = first - 1
  while (!signal.aborted && server.power === 'starting') {
    const lines = await server.console.after(seq, { lines: 500, bytes: 256 * 1024 })
    const found = lines.find(wanted)
    if (found !== undefined) return found
    seq = lines.at(-1)?.[0] ?? seq
    if (lines.length === 0) await server.console.waitAfter(seq, signal)
  }
  return undefined
}
