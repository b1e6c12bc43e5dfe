import type { Stats } from 'node:fs'
import { pathText } from '../../shared/kernel/path-text.ts'
import { AgentFailure } from '../failure.ts'
import { MOST_PATH_BYTES, withPlace } from '../files/place.ts'

const MOST_LINKS = 8
const MOST_NAMES = 1000

/**
 * The path that a client means, from the folder of the server on: `..` goes up by the text alone, and no further than there, so that
 * what is left holds none.
 */
export function clientPath(bytes: Buffer): string {
  if (bytes.length > MOST_PATH_BYTES) throw new AgentFailure('PATH_INVALID', 'The path is longer than 4,096 bytes')
  const names: string[] = []
  for (const name of pathText(bytes).split('/')) {
    if (name === '..') names.pop()
    else if (name !== '' && name !== '.') names.push(name)
  }
  return `/${names.join('/')}`
}

/** The folder of an entry, for reports of what has changed. */
export function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/')) || '/'
}

/** The folder `to` as a link in the folder of `path` says it. */
export function relativeTarget(path: string, target: string): string {
  if (!target.startsWith('/')) return target
  const up = path.split('/').filter((name) => name !== '').length - 1
  return (
    `${'../'.repeat(up)}${target
      .split('/')
      .filter((name) => name !== '')
      .join('/')}` || '.'
  )
}

/**
 * The path without links on its way, nor at its end unless `keepLast`: each is read as a text and walked from the folder of the server
 * on, as any path is; one that leads to `/…` is meant from that folder on. What is at the path may be gone.
 */
export async function withoutLinks(root: string, path: string, { keepLast = false } = {}): Promise<string> {
  const waiting = path.split('/').filter((name) => name !== '')
  let done: string[] = []
  let links = 0
  while (waiting.length > 0) {
    const name = waiting.shift() ?? ''
    if (name === '..') done.pop()
    if (name === '..' || name === '.' || name === '') continue
    const here = `/${[...done, name].join('/')}`
    const isLast = keepLast && waiting.length === 0
    const target = isLast ? undefined : await withPlace(root, here, (place) => place.folder.linkTarget(place.name))
    if (target === undefined) {
      done.push(name)
      continue
    }
    const text = pathText(target)
    if (++links > MOST_LINKS || waiting.length > MOST_NAMES) throw new AgentFailure('PATH_INVALID', 'Too many links')
    if (text.startsWith('/')) done = []
    waiting.unshift(...text.split('/'))
  }
  return `/${done.join('/')}`
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const HALF_A_YEAR_MS = 183 * 86_400_000

/** An entry as `ls -l` shows it, which some clients print as it is. */
export function longName(facts: Stats, name: Buffer, nowMs: number): Buffer {
  const at = new Date(Number.isFinite(facts.mtimeMs) ? Math.min(Math.max(facts.mtimeMs, -8e15), 8e15) : 0)
  const isRecent = Math.abs(nowMs - at.getTime()) < HALF_A_YEAR_MS
  const two = (number: number): string => String(number).padStart(2, '0')
  const when = isRecent
    ? `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`
    : String(at.getUTCFullYear()).padStart(5)
  const date = `${MONTHS[at.getUTCMonth()]} ${String(at.getUTCDate()).padStart(2)} ${when}`
  const text = `${modeText(facts)} ${String(facts.nlink).padStart(4)} ${String(facts.uid).padEnd(8)} ${String(facts.gid).padEnd(8)} ${String(facts.size).padStart(8)} ${date} `
  return Buffer.concat([Buffer.from(text), name])
}

function modeText(facts: Stats): string {
  const kind = facts.isDirectory() ? 'd' : facts.isSymbolicLink() ? 'l' : facts.isFile() ? '-' : '?'
  const bits = [...'rwxrwxrwx'].map((bit, index) => ((facts.mode >> (8 - index)) & 1 ? bit : '-'))
  return kind + bits.join('')
}
