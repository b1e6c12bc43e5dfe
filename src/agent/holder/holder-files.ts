import { join } from 'node:path'
import type { LineStream } from '../../shared/protocol/console.ts'
import type { ServerMount } from '../../shared/protocol/mounts.ts'
import type { RuntimeName, TerminalKey } from '../../shared/protocol/server-spec.ts'
import type { RunExit, RunPlan, RunRecord } from '../runtime/runtime.ts'

/** The control groups of a run: one folder (version 2) or one per controller (version 1). */
export type CgroupPlace =
  | { readonly version: 2; readonly dir: string }
  | { readonly version: 1; readonly dirs: Readonly<Record<string, string>> }

/** How a run is kept apart from the machine and from other servers. */
export interface Isolation {
  /** The server's own user and group; `null`: the agent's. */
  readonly uid: number | null
  /** A private mount namespace, in which the files folder is /mnt/server. */
  readonly mounts: boolean
  /** The program is locked into a user namespace in which no further one can be made. */
  readonly locked?: boolean
  readonly cgroup: CgroupPlace | null
}

/** What stands in the console, as a line of the system, where a holder was killed and another one took its place. */
export const TAKEN_OVER = 'The process that reads the output has been replaced; lines of that moment may be missing'

/** Why a run ended that a holder finds after a restart of the machine. */
export const MACHINE_RESTART = 'restart of the machine'

/** Why a container ended that its engine ends with itself. */
export const ENGINE_RESTART = 'restart of the container engine'

/** The container of a run. */
export interface ContainerPlace {
  /** The engine's socket. */
  readonly socket: string
  readonly name: string
  /** The agent's label on it; absent in what versions without it have written, as `id`. */
  readonly agent?: string
  /** The engine's own name of it, once it is made. */
  readonly id?: string
  /** Its first process is one of the engine's own, which hands signals on to the program. */
  readonly init: boolean
  /** It has a network of its own, in which its ports are the same as outside. */
  readonly ownNetwork: boolean
  /**
   * At which addresses of the machine its ports are reached; absent in a network in which it has an address of its own, and in
   * what versions without it have written.
   */
  readonly published?: RunPlan['ports']
}

/** Where a run's console is, beside pipes: a terminal of this size, or a log file of the game in its folder as well. */
export type HeldConsole =
  | { readonly kind: 'pty'; readonly columns: number; readonly rows: number }
  | { readonly kind: 'file'; readonly folder: string; readonly path: string }

/** What a holder needs to know of its run for as long as it lives. */
export interface HeldRun {
  readonly serverId: string
  /** What runs it; absent in what versions without another runtime have written: `process`. */
  readonly runtime?: RuntimeName
  readonly kind: RunPlan['kind']
  readonly launchId: string
  readonly socket: string
  readonly logMb: number
  readonly newEpoch: string
  readonly limits: RunPlan['limits']
  /** Values that do not get into the console log. */
  readonly masked?: readonly string[]
  readonly isolation: Isolation
  readonly container?: ContainerPlace
  /** Absent for pipes alone. */
  readonly console?: HeldConsole
}

/** The file that starts a run. It holds the environment, so it is unlinked as soon as the run is on record. */
export interface LaunchFile {
  readonly run: HeldRun
  readonly argv: readonly [string, ...string[]]
  readonly env: Readonly<Record<string, string>>
  readonly files: string
  /** Folders of the machine that are put into the files folder, in the private mounts of the run. */
  readonly mounts?: readonly ServerMount[]
  /** What the engine is to make, in its own words; for a container, in place of `argv` and `env`. */
  readonly container?: object
}

/** holder.json: the run on record. `start` is the kernel's start time of `pid`, which distinguishes a process from a later one. */
export interface HolderRecord extends RunRecord {
  readonly run: HeldRun
  readonly start: string
  readonly launcherPid: number
  readonly launcherStart: string
  readonly bootId: string
  /** The terminal of a process that has one. */
  readonly terminal?: string
  /** The next exit was ordered. */
  readonly ordered: boolean
  /** When that was first said. */
  readonly orderedAtMs?: number
  /** An exit up to this instant (milliseconds since the epoch) was ordered. */
  readonly orderedUntilMs?: number
  /** Why the panel itself ended the run. */
  readonly by: string | null
  /** The agent has taken note of the exit. */
  readonly forgotten: boolean
}

/** Whether the end of a run at this instant was ordered. */
export function isOrdered(record: Pick<HolderRecord, 'ordered' | 'orderedUntilMs'>, atMs: number): boolean {
  return record.ordered || (record.orderedUntilMs !== undefined && atMs <= record.orderedUntilMs)
}

/** What is asked of a holder; each is answered by an {@link Answer} with the same id. */
export type Ask =
  | { readonly id: number; readonly op: 'input'; readonly line: string }
  /** `key`: what a terminal is given first; the signal follows where that does not send it. */
  | { readonly id: number; readonly op: 'signal'; readonly name: string; readonly key?: TerminalKey }
  | { readonly id: number; readonly op: 'expect'; readonly withinMs?: number }
  | { readonly id: number; readonly op: 'note'; readonly text: string; readonly stream: LineStream }
  | { readonly id: number; readonly op: 'ack'; readonly launchId: string }

/** What a holder says: answers, and what happens. `hello` comes first on every connection; its `pid` is a living process. */
export type Say =
  | { readonly id: number; readonly ok: true }
  | {
      readonly id: number
      readonly ok: false
      readonly code: 'NOT_RUNNING' | 'TIMEOUT' | 'INTERNAL'
      readonly message: string
    }
  | { readonly hello: RunRecord; readonly last: number }
  | { readonly last: number }
  /** The first process has ended, and this one of the run lives on. */
  | { readonly pid: number }
  | { readonly exit: RunExit }

/** Where things are in a server's state folder. */
export interface HolderPaths {
  readonly lock: string
  readonly launch: string
  readonly record: string
  readonly exit: string
  readonly failure: string
  readonly log: string
  /** How far the log file of the game has been read. */
  readonly tail: string
  readonly io: string
  readonly stdin: string
  readonly stdout: string
  readonly stderr: string
  /** Only the launcher has it open for writing, so that it ends with the launcher. */
  readonly alive: string
  /** Written by the launcher when the child has ended: its exit code as a shell gives it. */
  readonly code: string
  /** What the launcher's shell itself says. */
  readonly diagnosis: string
}

/** The paths of the server whose state folder is `state`. */
export function holderPaths(state: string): HolderPaths {
  const io = join(state, 'io')
  return {
    lock: join(state, 'holder.lock'),
    launch: join(state, 'launch.json'),
    record: join(state, 'holder.json'),
    exit: join(state, 'exit.json'),
    failure: join(state, 'failure.json'),
    log: join(state, 'console'),
    tail: join(state, 'tail.json'),
    io,
    stdin: join(io, 'stdin'),
    stdout: join(io, 'stdout'),
    stderr: join(io, 'stderr'),
    alive: join(io, 'alive'),
    code: join(io, 'code'),
    diagnosis: join(io, 'diagnosis'),
  }
}
