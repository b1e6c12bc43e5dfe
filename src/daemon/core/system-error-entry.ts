import type { SystemErrorLevel } from '../../shared/kernel/system-error.ts'
import { maskSecrets, maskText } from './masking.ts'
import { sha256 } from './secrets.ts'

/** Where and for whom something went wrong. */
export interface ErrorAbout {
  /** The part of the program: `http`, `gateway`, `upkeep`. */
  readonly component: string
  /** `error` when absent. */
  readonly level?: SystemErrorLevel
  readonly requestId?: string | undefined
  readonly userId?: string | undefined
  readonly metadata?: Readonly<Record<string, unknown>> | undefined
}

/** What is written down of it: bounded, without secrets. */
export interface ErrorEntry {
  readonly fingerprint: string
  readonly level: SystemErrorLevel
  readonly component: string
  readonly message: string
  readonly stack: string | null
  /** JSON text. */
  readonly metadata: string | null
  readonly requestId: string | null
  readonly userId: string | null
}

const MOST = { component: 200, message: 2000, stack: 10_000, metadata: 50 * 1024 } as const
const FRAMES = 3

/** What is kept of a thrown value. Two times of the same bug have the same fingerprint. */
export function errorEntry(thrown: unknown, about: ErrorAbout): ErrorEntry {
  const component = cut(about.component, MOST.component)
  const message = maskText(cut(messageOf(thrown), MOST.message))
  const stack = stackOf(thrown)
  return {
    fingerprint: sha256(JSON.stringify([component, normalised(message), framesOf(stack)])),
    level: about.level ?? 'error',
    component,
    message,
    stack,
    metadata: metadataOf(about.metadata),
    requestId: about.requestId ?? null,
    userId: about.userId ?? null,
  }
}

function messageOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return typeof thrown === 'string' ? thrown : `thrown: ${String(thrown)}`
  return thrown.message === '' ? thrown.name : thrown.message
}

/** The stack with those of its causes. It is cut before it is searched: nothing of what is cut off was looked at or kept. */
function stackOf(thrown: unknown): string | null {
  const parts: string[] = []
  for (let at = thrown; at instanceof Error && parts.length < 4; at = at.cause) if (at.stack) parts.push(at.stack)
  if (parts.length === 0) return null
  return maskText(cut(parts.join('\ncaused by '), MOST.stack))
}

/** The uppermost frames without the folder of the installation, which differs between machines. */
function framesOf(stack: string | null): string[] {
  if (stack === null) return []
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line))
  return frames.slice(0, FRAMES).map((frame) => withoutFolder(frame.trim()))
}

/** `at run (file:///opt/panel/dist/a.js:1:2)` is `at run (a.js:1:2)`. */
function withoutFolder(frame: string): string {
  const begin = frame.search(/file:\/\/\/|\//)
  const end = frame.lastIndexOf('/')
  return begin < 0 ? frame : `${frame.slice(0, begin)}${frame.slice(end + 1)}`
}

/** Ids, numbers and quoted values vary between two times of one bug. */
function normalised(message: string): string {
  return message
    .replace(/\b[a-z]{2,5}_[0-9a-z]{26}\b/g, '<id>')
    .replace(/\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b/gi, '<id>')
    .replace(/(["'`]).*?\1/g, '<text>')
    .replace(/\b0x[0-9a-f]+\b|\d+/gi, '<n>')
    .toLowerCase()
}

function metadataOf(metadata: ErrorAbout['metadata']): string | null {
  if (metadata === undefined) return null
  const text = JSON.stringify(maskSecrets(metadata, true))
  return Buffer.byteLength(text) <= MOST.metadata ? text : JSON.stringify({ tooLarge: true, bytes: text.length })
}

function cut(text: string, most: number): string {
  return text.length <= most ? text : `${text.slice(0, most - 1)}…`
}
