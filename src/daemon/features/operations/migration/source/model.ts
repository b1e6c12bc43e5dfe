/**
 * What a source has, in the same shape for every flavour. Ids are the source's own as text, and mean something only together with their kind:
 * a node and a server may have the same one. Texts come from a remote host: they are bounded in length and nothing else is promised of them.
 */

/** Whose API or folder a source is. */
export type SourceFlavor = 'pterodactyl' | 'pelican' | 'directory'

/** The kinds of things that are counted, so that nothing that was read gets lost on the way. */
export type SourceKind =
  | 'location'
  | 'nest'
  | 'egg'
  | 'node'
  | 'user'
  | 'server'
  | 'allocation'
  | 'subuser'
  | 'database'
  | 'schedule'
  | 'backup'
  | 'mount'

/** A thing of the source that is there and cannot be read. It is reported, and everything else goes on. */
export interface UnreadableItem {
  readonly kind: SourceKind
  /** `null`: the source does not even say which one. */
  readonly id: string | null
  readonly name: string | null
  readonly reason: string
}

/** All items of a kind: those that were read, and those that could not be. */
export interface SourceList<T> {
  readonly items: readonly T[]
  readonly unreadable: readonly UnreadableItem[]
}

/** What a source cannot give, whatever the keys allow; for the report. */
export interface SourceLoss {
  readonly what: string
  /** `null`: not known. */
  readonly count: number | null
  readonly why: string
}

/** Natural key: `name`. */
export interface SourceLocation {
  readonly id: string
  readonly name: string
  readonly description: string
}

/** Natural key: `name`. Pelican has none: each first tag of its eggs stands for one. */
export interface SourceNest {
  readonly id: string
  readonly uuid: string | null
  readonly name: string
  readonly description: string
}

/** Natural key: `uuid`, and `name` within its nest where there is none. */
export interface SourceEgg {
  readonly id: string
  readonly uuid: string | null
  readonly nestId: string
  readonly name: string
  /** As the source would export it, with everything it inherits filled in; what `importEgg` takes. */
  readonly document: Readonly<Record<string, unknown>>
  /** A template of this panel, by its name or id: there is nothing that it could be made of, and `document` is empty. */
  readonly mustExist: boolean
}

/** Natural key: `uuid`. */
export interface SourceNode {
  readonly id: string
  readonly uuid: string | null
  readonly name: string
  readonly description: string
  /** `null`: of a flavour without locations. */
  readonly locationId: string | null
  readonly fqdn: string
  /** Where its archives are downloaded: scheme, host and port, without a slash at the end. Empty: nothing is downloaded. */
  readonly origin: string
  readonly sftpPort: number
  /** MiB. */
  readonly memoryMb: number
  /** MiB. */
  readonly diskMb: number
  readonly isInMaintenance: boolean
  readonly tags: readonly string[]
}

/** Natural key: `email`, in lower case. */
export interface SourceUser {
  readonly id: string
  readonly uuid: string | null
  readonly externalId: string | null
  readonly username: string
  /** In lower case; of one that must exist perhaps its user name. */
  readonly email: string
  readonly firstName: string | null
  readonly lastName: string | null
  readonly language: string | null
  readonly isAdmin: boolean
  /** A second factor that has to be enrolled again. */
  readonly hasTwoFactor: boolean
  /** An account of this panel, by its address or user name: nobody is made. */
  readonly mustExist: boolean
}

/** Natural key: `ip` and `port` on its node. */
export interface SourceAllocation {
  readonly id: string
  readonly ip: string
  readonly port: number
  readonly alias: string | null
  readonly notes: string | null
  readonly isPrimary: boolean
}

/** Natural key: the user. */
export interface SourceSubuser {
  /** `null` where the source names people by uuid alone. */
  readonly userId: string | null
  readonly userUuid: string | null
  readonly email: string | null
  /** The source's own names. */
  readonly permissions: readonly string[]
}

/** Natural key: `host`, `port` and `name`. */
export interface SourceDatabase {
  readonly id: string
  readonly name: string
  readonly username: string
  /** `null`: the keys do not show it. Secret: never logged, never in a report. */
  readonly password: string | null
  /** Hosts its user may connect from; `%` for any. */
  readonly remote: string
  /** 0: any number. */
  readonly maxConnections: number
  /** `null`: the keys do not show it. */
  readonly host: SourceDatabaseHost | null
}

/** Natural key: `host` and `port`. Its password is never shown. */
export interface SourceDatabaseHost {
  readonly id: string
  readonly name: string
  readonly host: string
  readonly port: number
  readonly username: string
}

/** The fields of a cron line, as odd as the source let them be. */
export interface SourceCron {
  readonly minute: string
  readonly hour: string
  readonly dayOfMonth: string
  readonly month: string
  readonly dayOfWeek: string
}

/** One step of a schedule. `action` is `command`, `power` or `backup`, or what else the source calls it. */
export interface SourceTask {
  readonly id: string
  readonly action: string
  /** The line, the signal, or what the backup leaves out. */
  readonly payload: string
  /** Seconds to wait after the step before it. */
  readonly offsetSeconds: number
  readonly continueOnFailure: boolean
}

/** Natural key: its id on its server. */
export interface SourceSchedule {
  readonly id: string
  readonly name: string
  readonly cron: SourceCron
  readonly isActive: boolean
  readonly onlyWhenOnline: boolean
  /** In their order. */
  readonly tasks: readonly SourceTask[]
}

/** A backup. A failed one is complete too: only `good` ones have an archive. */
export interface SourceBackup {
  readonly uuid: string
  readonly name: string
  readonly state: 'pending' | 'good' | 'failed'
  readonly isLocked: boolean
  readonly ignored: readonly string[]
  /** Of the archive, 40 hexadecimal digits; `null`: the source names none, or of another kind. */
  readonly sha1: string | null
  readonly bytes: number
  readonly createdAt: string | null
}

/** A folder of the node that servers see. */
export interface SourceMount {
  readonly id: string
  readonly uuid: string | null
  readonly name: string
  readonly description: string
  readonly source: string
  readonly target: string
  readonly isReadOnly: boolean
  readonly serverIds: readonly string[]
}

/** What a server is doing. Only of `ready` ones can backups be made. */
export type SourceServerState = 'ready' | 'installing' | 'install_failed' | 'suspended' | 'restoring_backup' | 'other'

/** As the source counts them: MiB, and percent of one CPU thread. */
export interface SourceLimits {
  /** MiB; 0: no limit. */
  readonly memoryMb: number
  /** MiB; 0: none, -1: no limit. */
  readonly swapMb: number
  /** MiB; 0: no limit. */
  readonly diskMb: number
  readonly ioWeight: number
  /** 100 is one thread; 0: no limit. */
  readonly cpuPercent: number
  /** The threads it is pinned to, as `0,2-3`. */
  readonly threads: string | null
  readonly isOomKillerOff: boolean
}

export interface SourceFeatureLimits {
  /** `null`: no limit. */
  readonly databases: number | null
  /** `null`: no limit. */
  readonly allocations: number | null
  /** 0 and `null`: no backups. Kept apart, so that exactly what was there is put back. */
  readonly backups: number | null
}

/** Natural key: `uuid`. */
export interface SourceServer {
  readonly id: string
  readonly uuid: string
  /** What the source's own addresses call it. */
  readonly identifier: string
  readonly externalId: string | null
  readonly name: string
  readonly description: string
  readonly state: SourceServerState
  readonly isSuspended: boolean
  /** May name somebody who is no longer there. Empty: whoever moves it in. */
  readonly ownerId: string
  readonly nodeId: string
  /** `null`: of a flavour without nests. */
  readonly nestId: string | null
  readonly eggId: string
  readonly limits: SourceLimits
  readonly featureLimits: SourceFeatureLimits
  readonly startup: string
  readonly image: string
  readonly isInstalled: boolean
  /** All variables, hidden ones too, without those that the source adds itself. */
  readonly environment: Readonly<Record<string, string>>
  readonly primaryAllocationId: string | null
  /** `null`: the keys do not show them. */
  readonly allocations: readonly SourceAllocation[] | null
  /** `null`: the keys do not show them with the server; `Source.subusers` may. */
  readonly subusers: readonly SourceSubuser[] | null
  /** Of its record in the source; changes with each change of it. */
  readonly updatedAt: string | null
  /** Of the state of its files: as long as it is the same there is nothing to bring anew. `null`: the source does not say it. */
  readonly filesFingerprint: string | null
}
