import type { LineStream } from '../../shared/protocol/console.ts'
import type { RuntimeReport } from '../../shared/protocol/node.ts'
import type { ServerUsage } from '../../shared/protocol/server.ts'
import type { RuntimeName, StopSignal } from '../../shared/protocol/server-spec.ts'
import type { OpenSocket } from './sockets.ts'

/** Where one server lives on a node. `files` is its HOME and working folder, `state` is the agent's and closed to the game. */
export interface ServerPlace {
  readonly serverId: string
  readonly files: string
  readonly state: string
}

/** What a run is for: a game or its installation. */
export type RunKind = 'game' | 'install'

/**
 * One run of a program for a server, as any runtime can carry it out. What a runtime has no use for it passes over: a process
 * has the machine's own programs and network, so it needs neither image nor ports.
 */
export interface RunPlan {
  readonly kind: RunKind
  /** Names this run; the same id is never started twice, and an adopted run is known by it. */
  readonly launchId: string
  /** The program with its arguments; looked up in the image where there is one. */
  readonly argv: readonly [string, ...string[]]
  /** The whole environment of the child; nothing of the agent's own is added. HOME is {@link Runtime.home}. */
  readonly env: Readonly<Record<string, string>>
  /** The container image; `null`: none, as for programs of the machine. */
  readonly image: string | null
  /** The addresses that it is reached at. */
  readonly ports: readonly { readonly ip: string; readonly port: number }[]
  readonly limits: {
    readonly memoryMb: number
    readonly swapMb: number
    readonly cpuCores: number
    readonly pids: number
  }
  /** The program may make user namespaces, in which it has capabilities; only where something asks for it. */
  readonly allowUserNamespaces?: boolean
  /** Values that do not get into the console log: what the program says is masked where they stand. */
  readonly masked?: readonly string[]
  /** The size of the console log on disk, in MiB. */
  readonly logMb: number
}

/** What a holder has written down about its child. */
export interface RunRecord {
  readonly kind: RunKind
  readonly launchId: string
  readonly pid: number
  /** Milliseconds since the epoch at which the child began. */
  readonly startedAtMs: number
  /** The first console line of this run. */
  readonly firstSeq: number
}

/** How a run ended. `ordered`: {@link Run.expectExit} was called before. `by`: why the panel itself ended it. */
export interface RunExit {
  readonly launchId: string
  readonly kind: RunKind
  readonly code: number | null
  readonly signal: string | null
  readonly oom: boolean
  readonly ordered: boolean
  readonly by: string | null
  readonly endedAtMs: number
  readonly uptimeMs: number
  readonly lastSeq: number
  /**
   * Its first process ended well and left others: `followed` until the last of them ended, whose exit code nobody has, or
   * `lost` and ended, where nothing holds a run's processes together.
   */
  readonly background?: 'followed' | 'lost'
  /** How far it went to end what a typed stop command had left in its time. */
  readonly forced?: 'SIGTERM' | 'SIGKILL'
}

/** Usage of a run; disk and uptime are known elsewhere. */
export type RunStats = Omit<ServerUsage, 'serverId' | 'diskMb' | 'uptimeMs' | 'players'>

/** A living run. It goes on when this object, or the whole agent, goes away. */
export interface Run {
  readonly record: RunRecord
  /** A living process of the run: its first one or, when that has ended, the oldest of the others. `null` without any. */
  readonly pid: number | null
  /** Calls `changed` whenever {@link pid} has become another one. */
  onPid(changed: () => void): void
  /** Resolves when the whole line is in the program's stdin and in the log as `stdin`; rejects when it has ended. */
  input(line: string): Promise<void>
  /** Sends the signal to the whole process group; SIGKILL ends every process of the run, also those that left the group. */
  signal(name: StopSignal): Promise<void>
  /**
   * The next exit was ordered, also when it comes after a while; with `withinMs` only one that comes in that time. The
   * holder keeps that even if the agent dies before it.
   */
  expectExit(withinMs?: number): Promise<void>
  /** Resolves once, when the run has ended and its last line is in the log. */
  readonly exited: Promise<RunExit>
  /** The sockets that its processes have open: those that an address reaches, or all of them. */
  listening(address?: { readonly ip: string; readonly port: number }): Promise<readonly OpenSocket[]>
  /** CPU, memory, I/O and processes of the whole run since the last call. */
  stats(): Promise<RunStats>
}

/** A way to start runs on this machine. Once started they are the same to everybody: see {@link RunTable}. */
export interface Runtime {
  readonly name: RuntimeName
  /** What this machine allows, or why the runtime cannot be used. Asked anew for each connection to a daemon. */
  probe(): Promise<RuntimeReport>
  /** Where a run sees the files of its server. */
  home(place: ServerPlace, kind: RunKind): Promise<string>
  /** Makes the files folder fit for the server's user before a run (owner, modes). */
  prepare(place: ServerPlace): Promise<void>
  /** Starts a run. Resolves when the child is alive; rejects with an AgentFailure of SPAWN_FAILED. */
  start(place: ServerPlace, plan: RunPlan): Promise<Run>
}

/** The runs of all servers, whichever runtime has started them. */
export interface RunTable {
  /** Finds the living run of a server, or the exit that nobody has taken note of yet, after the agent was away. */
  adopt(place: ServerPlace): Promise<{ run: Run } | { exit: RunExit } | undefined>
  /** Forgets an exit that the agent has written into its journal. */
  forget(place: ServerPlace, launchId: string): Promise<void>
  /** Writes a remark into the server's console, with or without a living run. */
  note(place: ServerPlace, text: string, stream?: LineStream): Promise<void>
}
