import type { Clock } from '../../shared/kernel/time.ts'
import type { TerminalKey } from '../../shared/protocol/server-spec.ts'
import type { HolderPaths, HolderRecord, LaunchFile } from './holder-files.ts'
import type { Sink } from './output-lines.ts'

/** Why a program could not be started; the message is a sentence for people. */
export class BeginFailure extends Error {}

/** A line could not be written to a child's input: it has ended (`closed`), or does not read. */
export class InputFailure extends Error {
  readonly closed: boolean

  constructor(message: string, closed: boolean) {
    super(message)
    this.closed = closed
  }
}

/** What the keys send. */
export const KEY_BYTES: Readonly<Record<TerminalKey, string>> = { '^C': '\x03', '^\\': '\x1c', '^D': '\x04' }

/** How the first process of a child ended. `null` for both: nobody knows. */
export interface ChildEnd {
  readonly code: number | null
  readonly signal: string | null
  /** Milliseconds since the epoch. */
  readonly atMs: number
  /** What has ended it beside itself and the panel. */
  readonly by?: string
}

/**
 * What a holder holds: a process of this machine or a container of an engine. The log and its numbers, the socket, what was
 * ordered and the record of the exit are the holder's and the same for every kind.
 */
export interface Child {
  /** Nothing but the child's own processes is among {@link living}, and none of them can leave. */
  readonly isEnclosed: boolean
  /** Resolves when the first process has ended, whether or not it is this holder that has started it. */
  ended(): Promise<ChildEnd>
  /** The processes that live, as numbers of this machine, also those that left the first one's group. */
  living(): readonly number[]
  /** Hands a line to the first process; `written` is called when it is in. Rejects with an {@link InputFailure}. */
  input(line: string, written: () => void): Promise<void>
  /** Sends the signal to every process once; false when there is none to get it. */
  signal(name: NodeJS.Signals): Promise<boolean>
  /** Types a key into the terminal. False when the signal of that key is still to be sent: without a terminal, or by a raw one. */
  key(key: TerminalKey): Promise<boolean>
  /** Ends every process. Resolves with how many there were, when none is left. */
  kill(): Promise<number>
  /** Resolves when it uses more memory than it may; never where the kernel sees to that, or once `signal` aborts. */
  memoryExceeded(signal: AbortSignal): Promise<void>
  /** No process is left: reads its last words and closes its input. */
  finish(): Promise<void>
  /** How many of its processes the kernel has ended for want of memory. */
  oomKills(): number
  /** Removes what was made for the run. */
  remove(): Promise<void>
}

/** What a holder gives a child of any kind. */
export interface ChildDeps {
  readonly paths: HolderPaths
  /** Where its output goes. */
  readonly sink: Sink
  readonly clock: Clock
}

/** A way to run a child. The files of a server's state folder say which one it is. */
export interface ChildKind {
  /**
   * Starts the run of a launch file. Its record is on disk before the program runs, and the launch file is gone when it
   * does: at whatever moment this process dies, a successor knows what runs. Rejects with a {@link BeginFailure}, having
   * left nothing behind.
   */
  start(file: LaunchFile, firstSeq: number, deps: ChildDeps): Promise<{ child: Child; record: HolderRecord }>
  /** Takes over a run on record whose holder is gone. */
  resume(record: HolderRecord, deps: ChildDeps): Promise<Child>
  /** Whether a run has begun whose holder was killed while there was a launch file and a record. */
  hasBegun(record: HolderRecord, paths: HolderPaths, clock: Clock): Promise<boolean>
  /** Ends what a killed holder had prepared for a run that it did not begin. */
  endUnbegun(record: HolderRecord, clock: Clock): Promise<void>
}
