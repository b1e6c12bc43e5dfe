import { ConfigFileProblem, refuseNul } from './config-file-problem.ts'
import { lineEnd } from './plain-lines.ts'
import { replacement, type Setting } from './setting.ts'

/**
 * Sets keys of an INI file: `section.key`, or `[a.b].key` for a section with dots; without a section the key stands before the first
 * one. Comments, order and what is not named stay; absent sections and keys are added.
 */
export function changeIni(text: string, settings: readonly Setting[]): string {
  const end = lineEnd(text)
  const lines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
  for (const setting of settings) change(lines, setting)
  return lines.length === 0 ? '' : `${lines.join(end)}${end}`
}

const SECTION = /^\s*\[([^\]]*)\]/

function change(lines: string[], setting: Setting): void {
  const { section, key } = placeOf(setting.key)
  const begin = section === '' ? 0 : lines.findIndex((line) => SECTION.exec(line)?.[1]?.trim() === section) + 1
  if (section !== '' && begin === 0) {
    const value = replacement(setting, undefined)
    if (value !== undefined) lines.push(`[${section}]`, `${key} = ${oneLine(value, setting.key)}`)
    return
  }
  const next = lines.findIndex((line, index) => index >= begin && SECTION.test(line))
  const end = next === -1 ? lines.length : next
  for (let at = begin; at < end; at++) {
    const pair = pairOf(lines[at] ?? '')
    if (pair?.key !== key) continue
    const value = replacement(setting, pair.value)
    if (value !== undefined) lines[at] = pair.head + oneLine(value, setting.key)
    return
  }
  const value = replacement(setting, undefined)
  if (value === undefined) return
  let at = end
  while (at > begin && lines[at - 1]?.trim() === '') at--
  lines.splice(at, 0, `${key} = ${oneLine(value, setting.key)}`)
}

/** A line `key = value`; `head` is all before the value. */
function pairOf(line: string): { key: string; head: string; value: string } | undefined {
  const equals = line.indexOf('=')
  const key = line.slice(0, Math.max(0, equals)).trim()
  if (key === '' || ';#['.includes(key.charAt(0))) return undefined
  const value = line.slice(equals + 1).trimStart()
  return { key, head: line.slice(0, line.length - value.length), value: value.trimEnd() }
}

function placeOf(path: string): { section: string; key: string } {
  const bracketed = /^\[([^\]]+)\]\.(.+)$/.exec(path)
  if (bracketed !== null) return { section: bracketed[1] ?? '', key: bracketed[2] ?? '' }
  const dot = path.indexOf('.')
  return dot === -1 ? { section: '', key: path } : { section: path.slice(0, dot), key: path.slice(dot + 1) }
}

function oneLine(value: unknown, key: string): string {
  const text = String(value ?? '')
  refuseNul(text, key)
  if (/[\r\n]/.test(text)) throw new ConfigFileProblem(`cannot hold a value of several lines at ${key}`)
  return text
}
