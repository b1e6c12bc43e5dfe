import type {
  SourceAllocation,
  SourceBackup,
  SourceDatabase,
  SourceEgg,
  SourceFeatureLimits,
  SourceFlavor,
  SourceKind,
  SourceLimits,
  SourceList,
  SourceLocation,
  SourceLoss,
  SourceMount,
  SourceNest,
  SourceNode,
  SourceSchedule,
  SourceServer,
  SourceSubuser,
  SourceUser,
} from './model.ts'

/** What a key lets us do with a kind of things. `unknown`: it could not be asked. */
export type SourceRight = 'yes' | 'no' | 'unknown'

/** What a source is and what its keys may do there, as `panel migration test` shows it. */
export interface SourceProbe {
  readonly flavor: SourceFlavor
  /** As far as the API lets it be seen; `unknown` otherwise. */
  readonly version: string
  /** Whether each kind of the administration can be read. Kinds that the flavour does not have are absent. */
  readonly reads: Readonly<Partial<Record<SourceKind, SourceRight>>>
  /** Whether the API of accounts answers for servers of everybody: schedules, backups and files come by it. */
  readonly clientApi: SourceRight
  /** What is missing and what to do about it, in sentences; empty: everything is there. */
  readonly missing: readonly string[]
  /** Of what can be counted. */
  readonly counts: Readonly<Partial<Record<SourceKind, number>>>
}

/** What a server is allowed to have, as it is set and put back. */
export interface SourceBuild {
  readonly allocationId: string
  readonly limits: SourceLimits
  readonly featureLimits: SourceFeatureLimits
}

/** How the game of a server stands. `unknown`: its node does not say. */
export type SourcePower = 'running' | 'starting' | 'stopping' | 'offline' | 'unknown'

/** Where an archive can be fetched, once. */
export interface SourceDownload {
  /** Secret while it is good, which is some minutes: never logged. The first request uses it up, a HEAD too. */
  readonly url: string
}

/** How much the source was asked; for the report. */
export interface SourceUsage {
  readonly requests: number
  readonly retries: number
  readonly throttledMs: number
  /** How many requests the source takes in a minute, over all of its APIs that were asked; `null`: its answers do not say. */
  readonly perMinute: number | null
}

/**
 * A source to move in from. Every call reads anew, obeys the source's throttle, tries again what may be tried again, and throws a
 * {@link SourceFailure} otherwise. `signal` ends it at once, also while it waits.
 */
export interface Source {
  readonly flavor: SourceFlavor
  /** The same for the same source, whatever its keys: what the map of a second run goes by. */
  readonly fingerprint: string
  /** What it is and what the keys may do; changes nothing there. Throws for a source that is none or refuses the keys. */
  probe(signal: AbortSignal): Promise<SourceProbe>

  locations(signal: AbortSignal): Promise<SourceList<SourceLocation>>
  nests(signal: AbortSignal): Promise<SourceList<SourceNest>>
  eggs(signal: AbortSignal): Promise<SourceList<SourceEgg>>
  nodes(signal: AbortSignal): Promise<SourceList<SourceNode>>
  users(signal: AbortSignal): Promise<SourceList<SourceUser>>
  servers(signal: AbortSignal): Promise<SourceList<SourceServer>>
  /** `null`: the source does not show them. */
  mounts(signal: AbortSignal): Promise<SourceList<SourceMount> | null>

  /** One server as it is now; `undefined`: it is gone. */
  server(id: string, signal: AbortSignal): Promise<SourceServer | undefined>
  /** Those of a node, of servers and free ones. */
  allocations(nodeId: string, signal: AbortSignal): Promise<SourceList<SourceAllocation>>
  subusers(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceSubuser>>
  databases(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceDatabase>>
  schedules(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceSchedule>>
  backups(server: SourceServer, signal: AbortSignal): Promise<SourceList<SourceBackup>>

  /** What the source cannot give; counts come from what was read so far. */
  losses(users: readonly SourceUser[]): readonly SourceLoss[]
  readonly usage: SourceUsage
  /** `null`: its files are not behind an API of the source. */
  readonly files: SourceFiles | null
  /** Where its servers lie, each in the folder that its id names; the node copies them by itself. `null`: behind {@link files}. */
  readonly directory: SourceDirectory | null
  close(): Promise<void>
}

/** A folder of a node of this panel, by its absolute path. */
export interface SourceDirectory {
  readonly nodeId: string
  readonly path: string
}

/** What a source lets be done with a server so that its files can be fetched. Each change is safe to repeat. */
export interface SourceFiles {
  /** The backup of this name, whatever became of it; the good one where there are several. */
  findBackup(server: SourceServer, name: string, signal: AbortSignal): Promise<SourceBackup | undefined>
  /** Begins a backup under a name of our own, or answers the one that has the name already: never makes a second one. */
  createBackup(
    server: SourceServer,
    backup: { readonly name: string; readonly ignored: readonly string[] },
    signal: AbortSignal,
  ): Promise<SourceBackup>
  /** How far it is; `undefined`: it is gone. */
  backup(server: SourceServer, uuid: string, signal: AbortSignal): Promise<SourceBackup | undefined>
  /** A URL for the archive; a new one for each attempt. */
  download(server: SourceServer, uuid: string, signal: AbortSignal): Promise<SourceDownload>
  /** Deletes it; one that is gone is no failure. */
  deleteBackup(server: SourceServer, uuid: string, signal: AbortSignal): Promise<void>

  /**
   * The files of a server one by one, from its node: for those of which no backup can be made. `undefined`: the keys may not. What opens the
   * node stays in here.
   */
  tree(server: SourceServer, signal: AbortSignal): Promise<SourceTree | undefined>

  /** What it is allowed to have now; kept before it is changed. */
  build(serverId: string, signal: AbortSignal): Promise<SourceBuild>
  /** Sets all of it, so that what was kept is put back by the same call. */
  setBuild(serverId: string, build: SourceBuild, signal: AbortSignal): Promise<void>
  setSuspended(serverId: string, isSuspended: boolean, signal: AbortSignal): Promise<void>
  power(server: SourceServer, signal: AbortSignal): Promise<SourcePower>
  setPower(server: SourceServer, action: 'start' | 'stop' | 'kill', signal: AbortSignal): Promise<void>
}

/** The files of one server as its node shows them. Names are checked: each is one name, and none leads out. */
export interface SourceTree {
  /** What is in a folder; the top is an empty path. Throws a {@link SourceFailure} where a name is none. */
  list(folder: string, signal: AbortSignal): Promise<readonly SourceEntry[]>
  /** The bytes of a file, begun anew by each call. Ends with a {@link SourceFailure} where they do not come whole. */
  read(path: string, signal: AbortSignal): AsyncIterable<Buffer>
}

export interface SourceEntry {
  readonly name: string
  /** Where a link leads is not shown. */
  readonly kind: 'file' | 'folder' | 'link'
  readonly bytes: number
  /** Permissions, such as 0o644. */
  readonly mode: number
  readonly modifiedMs: number
}

/** Why a source failed, for programs. */
export type SourceProblem =
  /** Nothing answers there: name, port, network. */
  | 'unreachable'
  | 'tls'
  /** The keys are not, or no longer, good: the whole job ends. */
  | 'auth'
  /** The keys may not do this. */
  | 'denied'
  | 'missing'
  /** The server, or its node, is in a state in which it cannot be done now. */
  | 'state'
  /** No slot for a further backup. */
  | 'slots'
  /** The source takes no more backups of this server for a while; only this step waits. */
  | 'backup-throttle'
  /** The source wants to be left alone for longer than one waits. */
  | 'throttle'
  /** The node of the source cannot be reached by the source. */
  | 'node-offline'
  /** What was sent is refused. */
  | 'rejected'
  /** It answers with failures. */
  | 'broken'
  /** What answers there is no panel of a known kind, or answers what cannot be read. */
  | 'not-a-source'

/** A failure of the source in a sentence, without keys or tokens. */
export class SourceFailure extends Error {
  override readonly name = 'SourceFailure'
  readonly problem: SourceProblem
  /** Whether the same may succeed later. */
  readonly isTransient: boolean
  /** After how long, where the source said so. */
  readonly retryAfterMs: number | null
  /** HTTP status of the answer; `null`: there was none. */
  readonly status: number | null
  /** The source's own code, such as `ServerStateConflictException`. */
  readonly sourceCode: string | null

  constructor(
    problem: SourceProblem,
    message: string,
    more: {
      readonly isTransient?: boolean
      readonly retryAfterMs?: number | null
      readonly status?: number | null
      readonly sourceCode?: string | null
      readonly cause?: unknown
    } = {},
  ) {
    super(message, more.cause === undefined ? undefined : { cause: more.cause })
    this.problem = problem
    this.isTransient = more.isTransient ?? false
    this.retryAfterMs = more.retryAfterMs ?? null
    this.status = more.status ?? null
    this.sourceCode = more.sourceCode ?? null
  }
}
