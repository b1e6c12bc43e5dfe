/** Whose API the simulator speaks. */
export type Flavor = 'pterodactyl' | 'pelican'

/**
 * What becomes of a request that a fault hits. `lost`: it is carried out, and the answer never arrives; `cut`: half of it does;
 * `hang`: nothing happens at all; `html`: a page of something that stands before the panel, with status 200.
 */
export type FailKind = '500' | '502' | '503' | '504' | 'html' | 'cut' | 'reset' | 'lost' | 'hang'

/** What goes wrong, and how fast things go. Can be changed while the simulator runs; numbers that count down say how many are left. */
export interface Faults {
  /** Requests per window of each API; `null`: what the panel allows by itself. */
  readonly throttle: number | null
  readonly throttleWindowMs: number
  readonly retryAfter: 'seconds' | 'date'
  /** Each n-th request fails; 0: none. */
  readonly failEvery: number
  readonly failKind: FailKind
  /** Methods that fail; none named: all. */
  readonly failMethods: readonly string[]
  /** How many requests may still fail; `null`: any number. */
  readonly failLeft: number | null
  /** Only requests whose path contains it fail; empty: all. */
  readonly failPath: string
  readonly delayMs: number
  /** How long a server takes to stop. */
  readonly stopMs: number
  /** How long a backup takes. */
  readonly backupMs: number
  /** Creations per server that the panel allows in a while. */
  readonly backupThrottle: { readonly max: number; readonly windowMs: number }
  /** Backups that end as failed ones, with `completed_at` and no checksum. */
  readonly backupFail: number
  /** Backups that never end. */
  readonly backupHang: number
  /** Downloads that end too early: with the connection, or as if nothing were missing. */
  readonly truncateBackup: number
  readonly truncateMode: 'reset' | 'short'
  /** Downloads of which one byte is another. */
  readonly corruptBackup: number
  /** Downloads that the node says it has nothing for, though the archive is there. */
  readonly downloadMissing: number
  /** Archives have entries that lead out of the folder, under a right checksum. */
  readonly hostileTar: boolean
  /** Archives have a file that is a thousand times as large as what it takes of the archive. */
  readonly tarBomb: boolean
  /** Bytes per second of a download; 0: as fast as it goes. */
  readonly slowBps: number
  /** Nodes, by id, that nobody reaches. */
  readonly wingsOffline: readonly number[]
  /** The panel demands a second factor, which the accounts do not have. */
  readonly forced2fa: boolean
}

export const NO_FAULTS: Faults = {
  throttle: null,
  throttleWindowMs: 60_000,
  retryAfter: 'seconds',
  failEvery: 0,
  failKind: '500',
  failMethods: [],
  failLeft: null,
  failPath: '',
  delayMs: 0,
  stopMs: 0,
  backupMs: 20,
  backupThrottle: { max: 2, windowMs: 600_000 },
  backupFail: 0,
  backupHang: 0,
  truncateBackup: 0,
  truncateMode: 'reset',
  corruptBackup: 0,
  downloadMissing: 0,
  hostileTar: false,
  tarBomb: false,
  slowBps: 0,
  wingsOffline: [],
  forced2fa: false,
}

/** What the source has. The same options give the same source, but for ports and the times of what happens while it runs. */
export interface WorldOptions {
  readonly flavor: Flavor
  readonly seed: number
  readonly servers: number
  readonly nodes: number
  /** Users beside the administrator. */
  readonly users: number
  /** Files of each server, and the size of those that are its world. */
  readonly filesPerServer: number
  readonly fileKb: number
  /** Of the servers, from the last one on: suspended, with all slots for backups full, and without any slot. */
  readonly suspended: number
  readonly fullSlots: number
  readonly zeroSlots: number
  /** One egg is stored in a way that its list cannot be answered with. */
  readonly poisonEgg: boolean
  /** Servers whose owner is no longer there. */
  readonly danglingOwners: number
  /** Names, cron texts, rules and addresses as real panels have them. */
  readonly oddities: boolean
  /** Backups lie in an object store, on a port of its own. */
  readonly s3: boolean
}

export const PLAIN_WORLD: WorldOptions = {
  flavor: 'pterodactyl',
  seed: 7,
  servers: 12,
  nodes: 2,
  users: 6,
  filesPerServer: 8,
  fileKb: 16,
  suspended: 1,
  fullSlots: 1,
  zeroSlots: 2,
  poisonEgg: false,
  danglingOwners: 0,
  oddities: true,
  s3: false,
}

/** Faults of which a number is left, each hit takes one away. */
export type Countdown = 'backupFail' | 'backupHang' | 'truncateBackup' | 'corruptBackup' | 'downloadMissing'
