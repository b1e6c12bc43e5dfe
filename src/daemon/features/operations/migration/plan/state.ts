import type {
  SourceBackup,
  SourceDatabase,
  SourceEgg,
  SourceFlavor,
  SourceLocation,
  SourceLoss,
  SourceMount,
  SourceNest,
  SourceNode,
  SourceSchedule,
  SourceServer,
  SourceSubuser,
  SourceUser,
  UnreadableItem,
} from '../source/model.ts'

/** All that was read of a source, once per plan, so that its pages do not shift under the work. Without passwords. */
export interface SourceSnapshot {
  readonly flavor: SourceFlavor
  readonly fingerprint: string
  /** Its servers lie in a folder of a node here, which copies them by itself. */
  readonly isDirectory: boolean
  readonly locations: readonly SourceLocation[]
  readonly nests: readonly SourceNest[]
  readonly eggs: readonly SourceEgg[]
  readonly nodes: readonly SourceNode[]
  readonly users: readonly SourceUser[]
  /** All of the source; the plan chooses. */
  readonly servers: readonly SourceServer[]
  readonly mounts: readonly SourceMount[]
  /** By the id of the server; of those that are in scope. */
  readonly perServer: ReadonlyMap<string, ServerBelongings>
  readonly unreadable: readonly UnreadableItem[]
  readonly losses: readonly SourceLoss[]
  /** How many requests the source takes in a minute; `null`: it does not say, or takes none. */
  readonly requestsPerMinute: number | null
}

/** What a server has beside its record. */
export interface ServerBelongings {
  readonly subusers: readonly SourceSubuser[]
  readonly databases: readonly Omit<SourceDatabase, 'password'>[]
  readonly schedules: readonly SourceSchedule[]
  readonly backups: readonly SourceBackup[]
}

/** A node of this panel, as far as a plan needs it. */
export interface TargetNodeState {
  readonly id: string
  readonly name: string
  readonly locationId: string
  /** Where its servers are given their ports. */
  readonly defaultIp: string
  readonly maxCpuCores: number
  /** Its agent is connected, and knows nothing of files from other panels. */
  readonly isAgentTooOld: boolean
  /** What it offers to run servers by; empty: it has never said. */
  readonly runtimes: readonly string[]
  /** MiB that its servers may still be given; `null`: as much as anybody asks for. */
  readonly freeMemoryMb: number | null
  /** Cores, in the same way. */
  readonly freeCpuCores: number | null
  /** `ip port` of all that is taken there. */
  readonly takenPorts: ReadonlySet<string>
}

/** What a migration before has brought, as the map has it; `isThere`: the target has not been deleted since. */
export interface Brought {
  readonly targetId: string
  readonly contentHash: string
  readonly isThere: boolean
  /** A migration has made the target, and not found it. */
  readonly created: boolean
}

/** What this panel has, as far as a plan needs it. */
export interface TargetState {
  /** By id. */
  readonly nodes: ReadonlyMap<string, TargetNodeState>
  /** Ids by name. */
  readonly locations: ReadonlyMap<string, string>
  readonly nests: ReadonlyMap<string, string>
  /** By name: names are unique. `origin`: SHA-256 of the egg that it was imported from. */
  readonly templates: ReadonlyMap<string, { readonly id: string; readonly origin: string | null }>
  /** By e-mail in lower case. */
  readonly users: ReadonlyMap<string, { readonly id: string; readonly username: string }>
  /** Ids of users that nobody can sign in as by a password yet. */
  readonly withoutPassword: ReadonlySet<string>
  /** Ids by user names in lower case. */
  readonly usernames: ReadonlyMap<string, string>
  /** By UUID. */
  readonly servers: ReadonlyMap<string, { readonly id: string; readonly name: string }>
  /** Database hosts by `host port` in lower case. */
  readonly databaseHosts: ReadonlyMap<string, string>
  /** Whether a host takes databases of the kind that sources have. */
  readonly takesDatabases: boolean
  /** By `type id`. */
  readonly brought: ReadonlyMap<string, Brought>
}
