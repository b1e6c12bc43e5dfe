/** Options of `panel daemon run`. Absent ones come from the configuration. */
export interface DaemonRunOptions {
  readonly config: string | undefined
  /** `host:port`, `:port` or `port`. */
  readonly listen: string | undefined
  readonly dataDir: string | undefined
  readonly logFormat: 'json' | 'pretty' | undefined
  readonly logLevel: string | undefined
}

/** What `panel up` leaves for the command line: the context that talks to its daemon. */
export interface SavedContext {
  readonly name: string
  readonly url: string
  /** The unix socket that it is reached by. */
  readonly socket: string
  readonly token: string
}

/** Options of `panel up`. */
export interface UpRunOptions {
  readonly listen: string | undefined
  readonly dataDir: string | undefined
  /** Writes the context (0600) that `panel` uses from then on. */
  readonly saveContext: (context: SavedContext) => Promise<void>
  /** Where people find the files of that context, for the screen. */
  readonly configDir: string
}

/** Options of `panel agent run`. */
export interface AgentRunOptions {
  readonly config: string | undefined
  readonly panelUrl: string | undefined
  readonly dataDir: string | undefined
  readonly caFile: string | undefined
  /** Plain http to another machine. */
  readonly allowInsecure: boolean
  /** The user whose program may serve the panel on this machine, beside root and the agent's own. */
  readonly listenerUid: number | undefined
  readonly logFormat: string | undefined
  readonly logLevel: string | undefined
}

/** Options of `panel agent enroll`. */
export interface AgentEnrollOptions {
  readonly url: string
  readonly token: string
  readonly dataDir: string | undefined
  readonly config: string | undefined
  readonly caFile: string | undefined
  /** Plain http to another machine. */
  readonly allowInsecure: boolean
  /** The user whose program may serve the panel on this machine, beside root and the agent's own. */
  readonly listenerUid: number | undefined
  /** Replace the credentials of an earlier enrolment. */
  readonly force: boolean
}

/** What an enrolment leaves. The key stays in the agent's file. */
export interface Enrolled {
  readonly nodeId: string
  readonly nodeName: string
  /** The file (0600) with the credentials. */
  readonly file: string
}

/** The daemon that holds a data folder, by its lock. */
export interface RunningDaemon {
  readonly pid: number
  readonly url: string | undefined
  readonly startedAt: string | undefined
  readonly dataDir: string
}

/** A daemon that was asked to stop; `gone`: within the time. */
export interface StoppedDaemon {
  readonly daemon: RunningDaemon
  readonly gone: boolean
}

/** A file with a database of a panel, as it was found. */
export interface DatabaseFile {
  readonly file: string
  /** `foreign`: sound, and not the database of a panel. */
  readonly status: 'ok' | 'damaged' | 'foreign' | 'newer' | 'missing'
  readonly problems: readonly string[]
  readonly schemaVersion: number | null
  readonly bytes: number | null
  readonly modifiedAt: string | null
}

/** A copy that has become the database of a data folder. */
export interface RestoredDatabase {
  readonly file: string
  readonly from: string
  readonly schemaVersion: number
  /** The folder with the database that was there before. */
  readonly replaced: string
}

/** Which backup of a panel is meant: a file, or in a bucket the name of an archive or `latest`. */
export interface SelfBackupSource {
  readonly name: string
  readonly s3:
    | {
        readonly endpoint: string
        readonly region: string
        readonly bucket: string
        readonly prefix: string
        readonly pathStyle: boolean
        readonly accessKeyId: string
        readonly secretAccessKey: string
      }
    | undefined
}

/** A backup of a panel as it was found. */
export interface ExaminedSelfBackup {
  readonly id: string
  readonly name: string
  readonly createdAt: string
  readonly panelVersion: string
  readonly schemaVersion: number
  /** Of the credential key by which the secrets in it are sealed. */
  readonly keyFingerprint: string | null
  readonly includesKey: boolean
  readonly bytes: number
  readonly sha256: string
  /** What is dated ahead of this machine's clock, which `latest` therefore is not; the newest date first. */
  readonly passedOver: readonly string[]
}

/** A backup that has become the panel of a data folder. */
export interface RestoredPanel extends ExaminedSelfBackup {
  readonly dataDir: string
  /** The file with the credential key; `null`: it stayed in the backup, or is not in it. */
  readonly keyFile: string | null
}

/**
 * What the command line needs of the daemon and the agent. It may import neither: `bin/panel.ts` hands these in, each
 * loading its part of the program only when it is called. The running ones resolve with an exit code when they are over.
 */
export interface Roles {
  runDaemon(options: DaemonRunOptions): Promise<number>
  /** Says what is wrong with the configuration, or that it is valid; starts nothing. */
  checkDaemon(options: DaemonRunOptions): Promise<number>
  runUp(options: UpRunOptions): Promise<number>
  runAgent(options: AgentRunOptions): Promise<number>
  enrollAgent(options: AgentEnrollOptions): Promise<Enrolled>
  /** The daemon that runs on this data folder (default: the usual one), `undefined` when none does. */
  findDaemon(options: { dataDir: string | undefined }): Promise<RunningDaemon | undefined>
  /** The folder that is meant when a data folder is named, or none. */
  dataFolder(options: { dataDir: string | undefined }): Promise<string>
  /** How many servers of that folder's own node run, also while no daemon does. */
  countGames(options: { dataDir: string | undefined }): Promise<number>
  /** Asks it to stop and resolves when it is gone or the time has passed; `undefined` when none ran. Games run on. */
  stopDaemon(options: { dataDir: string | undefined; timeoutMs: number }): Promise<StoppedDaemon | undefined>
  /** Reads that folder's database and the copies of it through; `running`: a daemon has it open. */
  checkDatabase(options: {
    dataDir: string | undefined
  }): Promise<DatabaseFile & { readonly running: boolean; readonly copies: readonly DatabaseFile[] }>
  /** Puts a copy in the place of that folder's database, whose daemon must be stopped. */
  restoreDatabase(options: { dataDir: string | undefined; copy: string }): Promise<RestoredDatabase>
  /** Reads a backup of a panel through, by way of an empty folder that is gone afterwards. */
  examineSelfBackup(options: {
    source: SelfBackupSource
    folder: string
    signal: AbortSignal
  }): Promise<ExaminedSelfBackup>
  /** Makes a panel of a backup in a data folder that has none. `withoutKey`: the credential key stays in the backup. */
  restorePanel(options: {
    source: SelfBackupSource
    dataDir: string | undefined
    passphrase: string | undefined
    withoutKey: boolean
    signal: AbortSignal
  }): Promise<RestoredPanel>
}
