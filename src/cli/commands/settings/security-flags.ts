import type { SecurityField } from '../../../shared/kernel/security-numbers.ts'

/** What each of the security settings limits, with its unit. */
export const SECURITY_SUMMARIES = {
  authRateLimitMax: 'sign-in and other public account requests of one address per minute',
  fileRateLimitMax: 'file requests of one caller per minute',
  consoleRateLimitMax: 'console commands of one caller to one server per minute',
  consoleOutputLinesMax: 'console lines that one viewer is sent per second; later ones wait, none is dropped',
  consoleOutputByteLimitBytes: 'console bytes that one viewer is sent per second; later ones wait, none is dropped',
  agentMessageMax:
    'frames of one agent per second, without what answers orders; above it its connection is closed with 4429',
  agentMetricsMax: 'kept and shown only: usage reports of one agent per minute',
  serverMetricsMax: 'kept and shown only: usage reports of one server per minute',
  lockoutMaxAttempts: 'failed sign-ins to one account from one address until it is locked there',
  lockoutWindowMinutes: 'minutes within which failed sign-ins add up',
  lockoutDurationMinutes: 'minutes of the first lockout; each further one in a row lasts twice as long, up to an hour',
  auditRetentionDays: 'days after which rows of the audit log are deleted',
  maxBufferMb: 'MiB of memory for the newest lines of all watched consoles together',
  fileTunnelRateLimitMax: 'requests of one address to the bulk transfer route of agents per minute',
  fileTunnelMaxUploadMb: 'the largest upload by a form, such as a picture, in MiB',
  fileTunnelMaxPendingPerNode: 'file transfers that may wait for one node',
  fileTunnelConcurrentMax: 'file transfers of one node at a time',
  addressMaxAttempts: 'failed sign-ins from one address, whatever the accounts, until it is locked',
  requestRateLimitMax: 'requests of one caller, or of one address without a credential, per minute',
  streamsPerServerMax: 'open streams of one kind for one server',
  streamsPerUserMax: 'open streams of one user',
  consoleLogMb: "MiB of a server's console log on its node",
} as const satisfies Record<SecurityField, string>
