/** One number of the security settings: where it is kept and what it may be. */
export interface SecurityNumber {
  /** The setting's key; in the configuration file `section.name`. */
  readonly key: string
  readonly default: number
  readonly min: number
  readonly max: number
}

const number = <const K extends string>(key: K, value: number, [min, max]: readonly [number, number]) => ({
  key,
  default: value,
  min,
  max,
})

const MILLION = 1_000_000

/**
 * The security settings by their names in the API. `agentMetricsMax` and `serverMetricsMax` are kept and shown for clients
 * that know them; metrics of agents are limited by the size of frames and by `agentMessageMax`.
 */
export const SECURITY_NUMBERS = {
  authRateLimitMax: number('limits.authRequestsPerMinute', 300, [1, 1000 * MILLION]),
  fileRateLimitMax: number('limits.fileRequestsPerMinute', 120, [1, 1000 * MILLION]),
  consoleRateLimitMax: number('limits.consoleCommandsPerMinute', 600, [1, 1000 * MILLION]),
  consoleOutputLinesMax: number('console.outputLinesPerSecond', 100_000, [100, 1000 * MILLION]),
  consoleOutputByteLimitBytes: number('console.outputBytesPerSecond', 16_777_216, [65_536, 1_073_741_824]),
  agentMessageMax: number('limits.agentFramesPerSecond', 10_000, [100, MILLION]),
  agentMetricsMax: number('limits.agentMetricsPerMinute', 10_000, [1, MILLION]),
  serverMetricsMax: number('limits.serverMetricsPerMinute', 60, [1, MILLION]),
  lockoutMaxAttempts: number('security.lockoutMaxAttempts', 5, [1, 1000]),
  lockoutWindowMinutes: number('security.lockoutWindowMinutes', 15, [1, 1440]),
  lockoutDurationMinutes: number('security.lockoutDurationMinutes', 15, [1, 1440]),
  auditRetentionDays: number('audit.retentionDays', 90, [1, 3650]),
  maxBufferMb: number('console.bufferMb', 64, [1, 4096]),
  fileTunnelRateLimitMax: number('limits.transferRequestsPerMinute', 100, [1, 1000 * MILLION]),
  fileTunnelMaxUploadMb: number('files.maxUploadMb', 100, [1, 500]),
  fileTunnelMaxPendingPerNode: number('files.waitingTransfersPerNode', 50, [1, 10_000]),
  fileTunnelConcurrentMax: number('files.transfersPerNode', 10, [1, 1000]),
  addressMaxAttempts: number('security.addressMaxAttempts', 20, [1, 10_000]),
  requestRateLimitMax: number('limits.requestsPerMinute', 3000, [10, 1000 * MILLION]),
  streamsPerServerMax: number('limits.streamsPerServer', 200, [1, 100_000]),
  streamsPerUserMax: number('limits.streamsPerUser', 50, [1, 100_000]),
  consoleLogMb: number('console.logMb', 64, [1, 1_048_576]),
} as const satisfies Record<string, SecurityNumber>

/** The name of a security setting in the API. */
export type SecurityField = keyof typeof SECURITY_NUMBERS
