import type { ResourceStats, StreamError } from '../../../shared/kernel/events.ts'
import type { ServerStatus } from '../../../shared/kernel/server-life.ts'

/** The state of the console stream. */
export type Link =
  | { readonly kind: 'connecting' }
  | { readonly kind: 'live' }
  | { readonly kind: 'retrying'; readonly untilMs: number; readonly attempt: number }
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  | { readonly kind: 'ended' }

/** What is known of the server and of the streams; times are milliseconds since the epoch. */
export interface Facts {
  readonly link: Link
  readonly status: ServerStatus | undefined
  readonly runningSinceMs: number | undefined
  readonly nodeOfflineSinceMs: number | undefined
  readonly stats: ResourceStats | undefined
  /** The last shares of CPU and memory in use, 0 to 1, oldest first. */
  readonly recent: { readonly cpu: readonly number[]; readonly memory: readonly number[] }
  readonly lockedUntilMs: number | undefined
  /** The last number of the log that the daemon spoke of at connecting. */
  readonly headSeq: number
  /** The number of the last line seen. */
  readonly seq: number
  /** Lines per second, over the last second. */
  readonly rate: number
  /** What a stream refused with, in words, such as a limit. */
  readonly limit: string | undefined
  /** The agreement that the game waits for. */
  readonly eula: PendingEula | undefined
  /** Whether this person may start the server, and so answer for it. */
  readonly mayStart: boolean
}

/** What a game wants to be agreed to before it runs; `declined`: somebody has, and it may be accepted later. */
export interface PendingEula {
  readonly text: string
  readonly declined: boolean
}

export const NO_FACTS: Facts = {
  link: { kind: 'connecting' },
  status: undefined,
  runningSinceMs: undefined,
  nodeOfflineSinceMs: undefined,
  stats: undefined,
  recent: { cpu: [], memory: [] },
  lockedUntilMs: undefined,
  headSeq: 0,
  seq: 0,
  rate: 0,
  limit: undefined,
  eula: undefined,
  mayStart: false,
}

/** The facts after the server's status changed. */
export function withStatus(facts: Facts, status: ServerStatus, atMs: number, startedAtMs?: number): Facts {
  const runs = status === 'running' || status === 'stopping'
  const since = startedAtMs ?? (status === 'running' && facts.status !== 'running' ? atMs : facts.runningSinceMs)
  return {
    ...facts,
    status,
    runningSinceMs: runs ? since : undefined,
    nodeOfflineSinceMs: status === 'unknown' ? (facts.nodeOfflineSinceMs ?? atMs) : undefined,
  }
}

const MOST_RECENT = 24

/** The facts after new measurements; `sinceMs` is when the server began to run, if they say so. */
export function withStats(facts: Facts, stats: ResourceStats, sinceMs: number | undefined): Facts {
  const add = (before: readonly number[], share: number | undefined): readonly number[] =>
    share === undefined ? before : [...before, share].slice(-MOST_RECENT)
  return {
    ...facts,
    stats,
    recent: { cpu: add(facts.recent.cpu, cpuShare(stats)), memory: add(facts.recent.memory, memoryShare(stats)) },
    runningSinceMs: facts.runningSinceMs ?? sinceMs,
  }
}

/** The share of the cores that a server may have which it uses. */
export function cpuShare({ cpuPercent }: ResourceStats): number | undefined {
  return cpuPercent === null ? undefined : cpuPercent / 100
}

/** The share of its memory that a server uses. */
export function memoryShare({ memoryUsageMb, memoryTotalMb }: ResourceStats): number | undefined {
  return memoryUsageMb === null || memoryTotalMb <= 0 ? undefined : memoryUsageMb / memoryTotalMb
}

/** The share of its disk that a server uses. */
export function diskShare({ diskUsageMb, diskTotalMb }: ResourceStats): number | undefined {
  return diskUsageMb === null || diskTotalMb <= 0 ? undefined : diskUsageMb / diskTotalMb
}

/** Whether what is shown of the server may have changed since: nothing comes from it now. */
export function isStale(facts: Facts): boolean {
  return facts.link.kind !== 'live' || facts.nodeOfflineSinceMs !== undefined
}

/** The facts after an `error` frame. */
export function withStreamError(facts: Facts, error: StreamError, nowMs: number): Facts {
  switch (error.error) {
    case 'auth_lockout':
      return { ...facts, lockedUntilMs: nowMs + (error.retryAfterSeconds ?? 60) * 1000 }
    case 'connection_limit':
      return { ...facts, limit: error.message ?? 'too many viewers' }
    case 'agent_offline':
      return { ...facts, nodeOfflineSinceMs: facts.nodeOfflineSinceMs ?? nowMs }
    case 'auth_expired':
    case 'auth_failed':
      return { ...facts, link: { kind: 'refused', code: 'AUTH_EXPIRED', message: error.message ?? error.error } }
    case 'permission_denied':
      return { ...facts, link: { kind: 'refused', code: 'PERMISSION_DENIED', message: error.message ?? error.error } }
    case 'server_suspended':
      return { ...facts, link: { kind: 'refused', code: 'SERVER_SUSPENDED', message: error.message ?? error.error } }
    case 'server_deleted':
      return { ...facts, link: { kind: 'refused', code: 'SERVER_NOT_FOUND', message: error.message ?? error.error } }
    case 'slow_consumer':
    case 'server_shutdown':
    case 'internal':
      return facts // the stream ends with it, and the reconnect that follows is shown
  }
}

/** How the state of the connection reads, and how alarming it is. */
export interface LinkText {
  readonly text: string
  readonly tone: 'good' | 'warn' | 'bad'
}

const CATCHING_UP_FROM = 500

/** The connection indicator. */
export function linkText(facts: Facts, nowMs: number): LinkText {
  const { link } = facts
  if (link.kind === 'refused') return { text: refusalText(link.code, link.message), tone: 'bad' }
  if (facts.lockedUntilMs !== undefined && facts.lockedUntilMs > nowMs) {
    return { text: `LOCKED OUT ${Math.ceil((facts.lockedUntilMs - nowMs) / 1000)}s`, tone: 'bad' }
  }
  if (link.kind === 'retrying') {
    if (facts.limit !== undefined) return { text: `LIMIT: ${facts.limit}`, tone: 'bad' }
    const seconds = Math.max(0, Math.ceil((link.untilMs - nowMs) / 1000))
    return { text: `RECONNECTING in ${seconds}s (${link.attempt}) ↻`, tone: 'warn' }
  }
  if (link.kind === 'ended') return { text: 'STREAM ENDED', tone: 'bad' }
  if (link.kind === 'connecting') return { text: 'CONNECTING', tone: 'warn' }
  if (facts.nodeOfflineSinceMs !== undefined) {
    return { text: `NODE OFFLINE since ${clockTime(facts.nodeOfflineSinceMs)}`, tone: 'bad' }
  }
  const behind = facts.headSeq - facts.seq
  if (behind > CATCHING_UP_FROM) return { text: `CATCHING UP ${grouped(behind)}`, tone: 'warn' }
  return { text: 'LIVE ●', tone: 'good' }
}

function refusalText(code: string, message: string): string {
  if (code === 'AUTH_EXPIRED' || code === 'UNAUTHENTICATED') return 'AUTH EXPIRED: panel login'
  if (code === 'STREAM_LIMIT_REACHED') return 'LIMIT: too many streams'
  if (code === 'SERVER_NOT_FOUND') return 'SERVER DELETED'
  if (code === 'SERVER_SUSPENDED') return 'SUSPENDED'
  return code === 'PERMISSION_DENIED' ? 'PERMISSION REMOVED' : `REFUSED: ${message}`
}

function clockTime(ms: number): string {
  const date = new Date(ms)
  return `${String(date.getHours()).padStart(2, '0')}:${String(date.getMinutes()).padStart(2, '0')}`
}

/** A number with commas between thousands. */
export function grouped(n: number): string {
  return Math.round(n).toLocaleString('en-US')
}
