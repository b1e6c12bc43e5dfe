import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A frame of the recorded session. */
export interface Recorded {
  readonly from: 'agent' | 'daemon'
  readonly frame: { readonly type: string; readonly [field: string]: unknown }
}

/**
 * A session between daemon and agent of the last version before requests, commands and capabilities had definitions: hello,
 * snapshot, an installation, a start, console lines, figures, a restart, a stop, a second connection and a deletion.
 */
export function readRecording(): Recorded[] {
  const text = readFileSync(join(import.meta.dirname, 'recorded-frames.jsonl'), 'utf8')
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

/** The same with other texts in the place of recorded ones, such as ids. */
export function rewritten<T>(value: T, changes: Readonly<Record<string, string>>): T {
  let text = JSON.stringify(value)
  for (const [from, to] of Object.entries(changes)) text = text.replaceAll(from, to)
  return JSON.parse(text)
}

/**
 * What a program that reads `old` would miss or misread in `now`, as paths: fields that are gone or have another type. Where either
 * is null or an empty list nothing can be said.
 */
export function missing(old: unknown, now: unknown, at = ''): string[] {
  if (old === null || now === null) return old !== null && now === undefined ? [at] : []
  if (Array.isArray(old)) {
    if (!Array.isArray(now)) return [at]
    const [first, second] = [old[0], now[0]]
    return first === undefined || second === undefined ? [] : missing(first, second, `${at}[]`)
  }
  if (typeof old !== 'object') return typeof old === typeof now ? [] : [at]
  if (typeof now !== 'object') return [at]
  const fields = new Map(Object.entries(now as object)) // an object: see above
  return Object.entries(old as object).flatMap(([name, value]) => missing(value, fields.get(name), `${at}.${name}`)) // likewise
}
