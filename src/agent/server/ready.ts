import { type ConsoleLine, LINE_PARTIAL } from '../../shared/protocol/console.ts'
import type { DoneRule } from '../../shared/protocol/server-spec.ts'
import { TAKEN_OVER } from '../holder/holder-files.ts'
import type { Run } from '../runtime/runtime.ts'
import type { ReadyMatcher } from './ready-matcher.ts'
import type { GameServer } from './server.ts'

const NO_RULE_MS = 120_000
/** What is kept of a line for its next part: a rule has at most 500 characters, and an expression sees 4096 of a text. */
const JOINED_CHARACTERS = 2048
/** What of a rule stands in a sentence about it. */
const RULE_CHARACTERS = 80

/**
 * Waits until a starting game says that it is up, or until 120 s have passed where nothing can be counted on. True unless it
 * was called off before.
 */
export async function awaitReady(server: GameServer, run: Run, signal: AbortSignal): Promise<boolean> {
  if (server.rules.done.length > 0) await awaitLine(server, run, signal)
  // Without a rule its port says it, where it has one; without either time does.
  else if (server.rules.listens === undefined || server.rules.listens === 'none') await waitOut(server, run, signal)
  return !signal.aborted
}

async function waitOut(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const { clock } = server.context
  const age = Math.max(0, clock.nowMs() - run.record.startedAtMs)
  await clock.sleep(Math.max(0, NO_RULE_MS - age), signal)
}

/**
 * Reads the log from the run's first line, so that a line of the time when the agent was away counts as well. Where it may
 * have been lost with a holder, or its rule was switched off, nobody can wait for it: then time counts too.
 */
async function awaitLine(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const { rules, context } = server
  let mayMiss = (): void => undefined
  const missed = new Promise<void>((resolve) => {
    mayMiss = resolve
  })
  let reported: Promise<unknown> = Promise.resolve()
  const matcher = context.readyThread.matcher(rules.done, {
    stripAnsi: rules.stripAnsi,
    switchedOff: (rule, reason) => {
      reported = Promise.all([reported, reportRule(server, rule, reason)])
      mayMiss()
    },
  })
  const found = hasReadyLine(server, run.record.firstSeq, { matcher, signal, mayMiss })
  await Promise.race([found, missed.then(() => waitOut(server, run, signal))])
  await reported // a server that runs by another rule says as well which one does not count
}

/** The server's owner sees why a rule does not count: in the console, and as the reason while it starts. */
async function reportRule(server: GameServer, { value }: DoneRule, reason: string): Promise<void> {
  const shown = value.length <= RULE_CHARACTERS ? value : `${value.slice(0, RULE_CHARACTERS)}…`
  const text = `The ready rule "${shown}" is switched off: it ${reason}; edit it in the template`
  await server.note(text)
  if (server.power === 'starting') await server.change({ facts: { reason: text } })
}

interface Search {
  readonly matcher: ReadyMatcher
  readonly signal: AbortSignal
  /** Called where a line may have been lost. */
  readonly mayMiss: () => void
}

/** Whether a line from `first` on says that the game is up; false when it is not starting any more. */
async function hasReadyLine(server: GameServer, first: number, { matcher, signal, mayMiss }: Search): Promise<boolean> {
  const parts = new LineParts()
  let seq = first - 1
  while (!signal.aborted && server.power === 'starting') {
    const lines = await server.console.after(seq, { lines: 500, bytes: 256 * 1024 })
    const found = await matcher.match(lines.flatMap(parts.textsOf), signal)
    if (found !== undefined) return true
    if (lines.some(isGap)) mayMiss()
    seq = lines.at(-1)?.[0] ?? seq
    if (lines.length === 0) await server.console.waitAfter(seq, undefined, signal)
  }
  return false
}

/**
 * Puts lines together that come in parts, after a quiet time or because they are long: a part is looked at by itself,
 * and behind the end of the line so far.
 */
class LineParts {
  readonly #open = new Map<string, string>()

  /** What rules look at when this line has come. */
  readonly textsOf = ([, , stream, text, flags]: ConsoleLine): string[] => {
    if (stream !== 'stdout' && stream !== 'stderr') return []
    const before = this.#open.get(stream) ?? ''
    const whole = before + text
    if ((flags & LINE_PARTIAL) === 0) this.#open.delete(stream)
    else this.#open.set(stream, whole.slice(-JOINED_CHARACTERS))
    return before === '' ? [text] : [whole, text]
  }
}

function isGap([, , stream, text]: ConsoleLine): boolean {
  return stream === 'system' && text === TAKEN_OVER
}
