import type { ConfigValue } from '../../shared/protocol/config-files.ts'
import { lineEnd } from './plain-lines.ts'
import { replacement, type Setting } from './setting.ts'

/** Sets keys of a Java properties file. Comments, order and what is not named stay; absent keys are added at the end. */
export function changeProperties(text: string, settings: readonly Setting[]): string {
  const end = lineEnd(text)
  const entries = logicalLines(text)
  for (const setting of settings) {
    const found = entries.filter(({ key }) => key === setting.key)
    for (const entry of found) {
      const value = replacement(setting, entry.value)
      if (value !== undefined && String(value ?? '') !== entry.value)
        Object.assign(entry, written(setting.key, value, end))
    }
    if (found.length > 0) continue
    const value = replacement(setting, undefined)
    if (value === undefined) continue
    const last = entries.at(-1)
    if (last !== undefined && !last.raw.endsWith('\n')) last.raw += end
    entries.push(written(setting.key, value, end))
  }
  return entries.map(({ raw }) => raw).join('')
}

interface Entry {
  raw: string
  key: string | undefined
  value: string | undefined
}

function written(key: string, value: ConfigValue, end: string): Entry {
  const text = String(value ?? '')
  return { raw: `${escaped(key, true)}=${escaped(text, false)}${end}`, key, value: text }
}

/** A line that ends with an odd number of backslashes goes on in the next one. */
function logicalLines(text: string): Entry[] {
  const entries: Entry[] = []
  let open = ''
  for (const line of text.split(/(?<=\n)/)) {
    const raw = open + line
    const isComment = open === '' && /^[ \t\f]*[#!]/.test(line)
    if (!isComment && goesOn(line)) {
      open = raw
      continue
    }
    open = ''
    if (raw !== '') entries.push(isComment ? { raw, key: undefined, value: undefined } : entryOf(raw))
  }
  if (open !== '') entries.push(entryOf(open))
  return entries
}

function goesOn(line: string): boolean {
  if (!line.endsWith('\n')) return false
  let at = line.length - (line.endsWith('\r\n') ? 2 : 1)
  let slashes = 0
  while (line[--at] === '\\') slashes++
  return slashes % 2 === 1
}

function entryOf(raw: string): Entry {
  const line = raw
    .replace(/\\\r?\n[ \t\f]*/g, '')
    .replace(/\r?\n$/, '')
    .replace(/^[ \t\f]+/, '')
  if (line === '') return { raw, key: undefined, value: undefined }
  let at = 0
  while (at < line.length && !' \t\f=:'.includes(line[at] ?? '')) at += line[at] === '\\' ? 2 : 1
  const key = line.slice(0, at)
  const rest = line.slice(at).replace(/^[ \t\f]*[=:]?[ \t\f]*/, '')
  return { raw, key: unescaped(key), value: unescaped(rest) }
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', f: '\f' }

function unescaped(text: string): string {
  return text.replace(/\\(?:u([0-9a-fA-F]{4})|(.))/g, (_, code: string | undefined, char: string | undefined) => {
    return code === undefined ? (ESCAPES[char ?? ''] ?? char ?? '') : String.fromCharCode(Number.parseInt(code, 16))
  })
}

function escaped(text: string, isKey: boolean): string {
  const safe = text.replace(/[\\\n\r\t\f]/g, (char) => {
    const [letter] = Object.entries(ESCAPES).find(([, value]) => value === char) ?? ['\\']
    return `\\${letter}`
  })
  const marked = isKey ? safe.replace(/[ =:#!]/g, '\\$&') : safe.replace(/^ /, '\\ ')
  return marked.replace(/[^\x20-\x7e]/g, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`)
}
