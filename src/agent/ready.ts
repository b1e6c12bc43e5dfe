import { RE2JS } from 're2js'
import type { DoneRule } from '../shared/server-spec.ts'
import { errorText } from './logger.ts'
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

/** Watches a starting game until a rule matches, or until 120 s have passed where there are none. */
export function watchReady(server: GameServer, run: Run): void {
  const over = new AbortController()
  const stop = (): void => over.abort()
  run.exited.then(stop, stop)
  const signal = AbortSignal.any([over.signal, server.gone.signal, server.context.ending])
  void (server.spec.done.length === 0 ? waitOut(server, run, signal) : followLog(server, run, signal)).catch(
    (error: unknown) => {
      server.context.log.error({ serverId: server.id, err: errorText(error) }, 'the ready line cannot be watched for')
    },
  )
}

async function waitOut(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const { clock } = server.context
  const age = Math.max(0, clock.nowMs() - run.record.startedAtMs)
  await clock.sleep(Math.max(0, NO_RULE_MS - age), signal)
  if (!signal.aborted) await markReady(server, run)
}

/** Reads the log from the run's first line, so that a line of the time when the agent was away counts as well. */
async function followLog(server: GameServer, run: Run, signal: AbortSignal): Promise<void> {
  const invalid: string[] = []
  const test = readyTest(server.spec.done, server.spec.stripAnsi, (rule) => invalid.push(rule))
  for (const rule of invalid) await server.note(`The ready rule "${rule}" is no valid regular expression`)
  let seq = run.record.firstSeq - 1
  while (!signal.aborted && server.power === 'starting') {
    const lines = await server.console.after(seq, { lines: 500, bytes: 256 * 1024 })
    for (const [, , stream, text] of lines) {
      if ((stream === 'stdout' || stream === 'stderr') && test(text)) return await markReady(server, run)
    }
    seq = lines.at(-1)?.[0] ?? seq
    if (lines.length === 0) await server.console.waitAfter(seq, signal)
  }
}

async function markReady(server: GameServer, run: Run): Promise<void> {
  const { launch } = server.facts
  if (server.game?.run !== run || server.power !== 'starting' || launch === null) return
  await server.refreshBounds()
  if (server.game?.run !== run || server.power !== 'starting') return
  await server.change({ power: 'running', facts: { launch: { ...launch, readyAtMs: server.context.clock.nowMs() } } })
}
