/** One number of the security settings: where it is kept, what it may be, and what it does. */
export interface SecurityNumber {
  /** The setting's key; in the configuration file `section.name`. */
  readonly key: string
  readonly default: number
  readonly min: number
  readonly max: number
  /** What it limits, with its unit; also the help of the command line. */
  readonly summary: string
}

const number = <const K extends string>(
  key: K,
  value: number,
  [min, max]: readonly [number, number],
  summary: string,
) => ({ key, default: value, min, max, summary })

const MILLION = 1_000_000

/**
 * The security settings by their names in the API (api.md §8.30; defaults by decisions #34, #39, #42, #80 to #83). The last
 * five are ours. `agentMetricsMax` and `serverMetricsMax` are kept and shown for clients that know them; figures of agents
 * are limited by the size of frames and by `agentMessageMax`.
 */
export const SECURITY_NUMBERS = {
  authRateLimitMax: number(
    'limits.authRequestsPerMinute',
    300,
    [1, 1000 * MILLION],
    'sign-in and other public account requests of one address per minute',
  ),
  fileRateLimitMax: number(
    'limits.fileRequestsPerMinute',
    120,
    [1, 1000 * MILLION],
    'file requests of one caller per minute',
  ),
  consoleRateLimitMax: number(
    'limits.consoleCommandsPerMinute',
    600,
    [1, 1000 * MILLION],
    'console commands of one caller to one server per minute',
  ),
  consoleOutputLinesMax: number(
    'console.outputLinesPerSecond',
    100_000,
    [100, 1000 * MILLION],
    'console lines that one viewer is sent per second; later ones wait, none is dropped',
  ),
  consoleOutputByteLimitBytes: number(
    'console.outputBytesPerSecond',
    16_777_216,
    [65_536, 1_073_741_824],
    'console bytes that one viewer is sent per second; later ones wait, none is dropped',
  ),
  agentMessageMax: number(
    'limits.agentFramesPerSecond',
    10_000,
    [100, MILLION],
    'frames of one agent per second; above it its connection is closed with 4429',
  ),
  agentMetricsMax: number(
    'limits.agentMetricsPerMinute',
    10_000,
    [1, MILLION],
    'kept and shown only: figures of one agent per minute',
  ),
  serverMetricsMax: number(
    'limits.serverMetricsPerMinute',
    60,
    [1, MILLION],
    'kept and shown only: figures of one server per minute',
  ),
  lockoutMaxAttempts: number(
    'security.lockoutMaxAttempts',
    5,
    [1, 1000],
    'failed sign-ins to one account from one address until it is locked there',
  ),
  lockoutWindowMinutes: number(
    'security.lockoutWindowMinutes',
    15,
    [1, 1440],
    'minutes within which failed sign-ins add up',
  ),
  lockoutDurationMinutes: number(
    'security.lockoutDurationMinutes',
    15,
    [1, 1440],
    'minutes of the first lockout; each further one in a row lasts twice as long, up to an hour',
  ),
  auditRetentionDays: number(
    'audit.retentionDays',
    90,
    [1, 3650],
    'days after which rows of the audit log are deleted',
  ),
  maxBufferMb: number(
    'console.bufferMb',
    64,
    [1, 4096],
    'MiB of memory for the newest lines of all watched consoles together',
  ),
  fileTunnelRateLimitMax: number(
    'limits.transferRequestsPerMinute',
    100,
    [1, 1000 * MILLION],
    'requests of one address to the bulk transfer route of agents per minute',
  ),
  fileTunnelMaxUploadMb: number('files.maxUploadMb', 100, [1, 500], 'the largest upload in MiB'),
  fileTunnelMaxPendingPerNode: number(
    'files.waitingTransfersPerNode',
    50,
    [1, 10_000],
    'file transfers that may wait for one node',
  ),
  fileTunnelConcurrentMax: number('files.transfersPerNode', 10, [1, 1000], 'file transfers of one node at a time'),
  addressMaxAttempts: number(
    'security.addressMaxAttempts',
    20,
    [1, 10_000],
    'failed sign-ins from one address, whatever the accounts, until it is locked',
  ),
  requestRateLimitMax: number(
    'limits.requestsPerMinute',
    3000,
    [10, 1000 * MILLION],
    'requests of one caller, or of one address without a credential, per minute',
  ),
  streamsPerServerMax: number('limits.streamsPerServer', 200, [1, 100_000], 'open streams of one kind for one server'),
  streamsPerUserMax: number('limits.streamsPerUser', 50, [1, 100_000], 'open streams of one user'),
  consoleLogMb: number('console.logMb', 64, [1, 1_048_576], "MiB of a server's console log on its node"),
} as const satisfies Record<string, SecurityNumber>

/** The name of a security setting in the API. */
export type SecurityField = keyof typeof SECURITY_NUMBERS
