import type { PortProtocol } from '../../shared/kernel/ports.ts'
import type { LineStream } from '../../shared/protocol/console.ts'
import type { ServerMount } from '../../shared/protocol/mounts.ts'
import type { RuntimeReport } from '../../shared/protocol/node.ts'
import type { ServerUsage } from '../../shared/protocol/server.ts'
import type {
  ConsoleKind,
  RuntimeName,
  ServerSpec,
  StopSignal,
  TerminalKey,
} from '../../shared/protocol/server-spec.ts'
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
  readonly ports: readonly {
    readonly ip: string
    readonly port: number
    /** Absent: both. */
    readonly protocol?: PortProtocol | undefined
  }[]
  readonly limits: {
    readonly memoryMb: number
    readonly swapMb: number
    readonly cpuCores: number
    readonly pids: number
    /** The processors that it may use, as the kernel writes them; absent: all. */
    readonly cpuSet?: string
    /** Its share of disk time from 10 to 1000; absent: that of everybody. */
    readonly ioWeight?: number
  }
  /** The network that it has an address of its own in. */
  readonly network?: OwnNetwork
  /** The program may make user namespaces, in which it has capabilities; only where something asks for it. */
  readonly allowUserNamespaces?: boolean
  /** Folders of the machine that it is given beside its own, by their real paths; refused by a runtime that cannot. */
  readonly mounts?: readonly ServerMount[]
  /** Values that do not get into the console log: what the program says is masked where they stand. */
  readonly masked?: readonly string[]
  /** The size of the console log on disk, in MiB. */
  readonly logMb: number
  /** Where a game's console is; absent: pipes. */
  readonly console?: ConsoleKind
}

/** A network of the node, by its name, and the address in it that is given to a server. */
export type OwnNetwork = NonNullable<ServerSpec['network']>

/** What a game finds of the network. */
export interface RunNetwork {
  /** What it is to listen on where the addresses of its ports are not inside: all that it has. `null`: the addresses of its ports. */
  readonly listenIp: string | null
  /** Where it reaches the machine. */
  readonly machineIp: string
  /** The address is its own: nothing of the machine can have its ports. */
  readonly isOwn: boolean
}

/** What is fetched anew for the next run, and how far that is. */
export interface RenewOptions {
  readonly image: string | null
  readonly signal: AbortSignal
  readonly progress: (report: { readonly doneBytes: number; readonly totalBytes: number }) => void
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
  /** It has a network of its own: what listens at its addresses on the machine is the engine, which hands on what comes. */
  readonly hasOwnNetwork: boolean
  /** Calls `changed` whenever {@link pid} has become another one. */
  onPid(changed: () => void): void
  /** Resolves when the whole line is in the program's stdin and in the log as `stdin`; rejects when it has ended. */
  input(line: string): Promise<void>
  /**
   * Sends the signal to the whole process group, with `key` in the way of a terminal: the key is typed, and the signal follows only
   * where the terminal does not send it by itself. SIGKILL ends every process of the run, also those that left the group.
   */
  signal(name: StopSignal, key?: TerminalKey): Promise<void>
  /**
   * The next exit was ordered, also when it comes after a while; with `withinMs` only one that comes in that time. The
   * holder keeps that even if the agent dies before it.
   */
  expectExit(withinMs?: number): Promise<void>
  /** Resolves once, when the run has ended and its last line is in the log. */
  readonly exited: Promise<RunExit>
  /** The sockets that its processes have open: those that an address of the machine reaches, or all of them. */
  listening(address?: { readonly ip: string; readonly port: number }): Promise<readonly OpenSocket[]>
  /** CPU, memory, I/O and processes of the whole run since the last call. */
  stats(): Promise<RunStats>
  /** Puts other limits in force while it runs; answers why that cannot be, in a sentence, or `null` when they are. */
  resize(limits: RunPlan['limits']): Promise<string | null>
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
  /** What a game finds of the network. */
  network(own: OwnNetwork | undefined): Promise<RunNetwork>
  /**
   * Starts a run. Resolves when the child is alive; rejects with an AgentFailure of SPAWN_FAILED. What is fetched for it first is
   * given up when `signal` aborts, with its reason.
   */
  start(place: ServerPlace, plan: RunPlan, signal?: AbortSignal): Promise<Run>
  /**
   * Fetches what the next run is made of, also what is there already, and removes what stopped runs have left. Rejects with
   * BAD_REQUEST where nothing is fetched for runs.
   */
  renew(place: ServerPlace, options: RenewOptions): Promise<void>
  /** The servers of which something is left outside their folders; as far as that can be known now. */
  remains(): Promise<ReadonlySet<string>>
  /** Removes what is left of a server's runs outside its folders, and ends what runs in it. Rejects when that cannot be done now. */
  discard(serverId: string): Promise<void>
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
