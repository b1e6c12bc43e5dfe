import type { ExitCause } from '../../shared/kernel/server-life.ts'
import type { ServerSpec } from '../../shared/protocol/server-spec.ts'
import { ENGINE_RESTART, MACHINE_RESTART } from '../holder/holder-files.ts'
import type { RunExit } from '../runtime/runtime.ts'
import type { LaunchFacts, ServerFacts } from '../state/journal-record.ts'
import { exitText } from './crash.ts'

/** Why a run ended, for programs and for people. */
export interface ExitExplanation {
  readonly cause: ExitCause
  readonly message: string
  /** It needs somebody's attention: neither what was ordered nor a clean end. */
  readonly isBad: boolean
}

/** What is known of an end beside the exit itself. */
export interface EndContext {
  readonly spec: ServerSpec
  readonly facts: Pick<ServerFacts, 'reason' | 'launch'>
  /** The run has left neither processes nor an exit, and this is why. */
  readonly vanished?: { readonly cause: 'machine-restart' | 'lost'; readonly message: string }
}

/** Explains an exit; the first that applies counts. */
export function explainExit(exit: RunExit, { spec, facts, vanished }: EndContext): ExitExplanation {
  if (vanished !== undefined) return bad(vanished.cause, vanished.message)
  if (exit.by === MACHINE_RESTART) return bad('machine-restart', 'The machine was restarted')
  if (exit.oom) return bad('out-of-memory', memoryMessage(exit, spec))
  const { launch } = facts
  const stopping = stepOf(exit, launch)
  if (stopping !== undefined) return explainStop(exit, stopping, { spec, reason: facts.reason, launch })
  if (exit.forced !== undefined) {
    const cause = exit.forced === 'SIGTERM' ? 'stop-sigterm' : 'stop-sigkill'
    return bad(cause, `It did not stop in time after its stop command was typed, and was ended with ${exit.forced}`)
  }
  if (exit.ordered) return good('stop-command', `It was stopped by a command in its console (${exitText(exit)})`)
  if (exit.by === ENGINE_RESTART) {
    return bad('engine-restart', 'The container engine was stopped or restarted, and has ended its containers')
  }
  if (exit.background === 'lost') {
    return bad(
      'background',
      'The program went into the background, where this node cannot follow it, and was ended; start it in the foreground',
    )
  }
  if (exit.background === 'followed') {
    return bad('unknown', 'The program, which had gone into the background, has ended; its exit code is not known')
  }
  if (exit.signal !== null) return bad('signal', `The program was ended by ${exit.signal}`)
  if (exit.code === 0) return good('finished', 'The program ended by itself with exit code 0')
  if (exit.code === null) return bad('unknown', 'The program has ended; its exit code is not known')
  return bad('exit-code', `The program ended with exit code ${exit.code}`)
}

/** The last step towards an ordered end. A game that ended by itself in the moment of a kill was not killed. */
function stepOf(exit: RunExit, launch: LaunchFacts | null): LaunchFacts['stopStep'] {
  if (launch === null) return undefined
  const isStopped = launch.stopAtMs !== null
  if (launch.stopStep === 'kill' && !exit.ordered) return isStopped ? 'rule' : undefined
  return launch.stopStep ?? (isStopped ? 'rule' : undefined)
}

interface Stopped {
  readonly spec: ServerSpec
  readonly reason: string | null
  readonly launch: LaunchFacts | null
}

function explainStop(
  exit: RunExit,
  step: NonNullable<LaunchFacts['stopStep']>,
  { spec, reason, launch }: Stopped,
): ExitExplanation {
  if (step === 'kill') return good('killed', 'It was killed by an order')
  // Only a stop of the panel's own will has a reason before its end.
  if (reason !== null) return bad('disk-limit', reason)
  if (launch?.unasked !== undefined) {
    const [cause, signal] =
      step === 'sigkill' ? (['stop-sigkill', 'SIGKILL'] as const) : (['stop-sigterm', 'SIGTERM'] as const)
    return bad(cause, `What stops it did not reach it (${launch.unasked}), and it was ended with ${signal}`)
  }
  const seconds = Math.round((launch?.stopTimeoutMs ?? spec.stop.timeoutMs) / 1000)
  if (step === 'sigterm') return bad('stop-sigterm', `It did not stop within ${seconds} s and was ended with SIGTERM`)
  if (step === 'sigkill') {
    return bad('stop-sigkill', `It did not stop within ${seconds} s, nor after SIGTERM, and was ended with SIGKILL`)
  }
  return good('stopped', `It was stopped by an order (${exitText(exit)})`)
}

function memoryMessage(exit: RunExit, { limits }: ServerSpec): string {
  const by = exit.by === null ? 'and was ended by the kernel' : 'and was ended'
  return limits.memoryMb > 0
    ? `It needed more than its ${limits.memoryMb} MiB of memory ${by}`
    : `It ran out of memory ${by}`
}

function bad(cause: ExitCause, message: string): ExitExplanation {
  return { cause, message, isBad: true }
}

function good(cause: ExitCause, message: string): ExitExplanation {
  return { cause, message, isBad: false }
}
