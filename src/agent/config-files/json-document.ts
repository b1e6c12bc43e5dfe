import { isDeeperThan, MOST_BODY_DEPTH } from '../../shared/kernel/json-depth.ts'
import { ConfigFileProblem } from './config-file-problem.ts'
import { replacement, type Setting, textOfValue } from './setting.ts'
import { typedValue } from './typed-value.ts'
import { EVERY, type Step, stepsOf } from './value-path.ts'

/** Sets values of a JSON file. Order and indentation stay; absent objects and keys are added, lists grow by one at a time. */
export function changeJson(text: string, settings: readonly Setting[]): string {
  const root = text.trim() === '' ? {} : parsed(text)
  for (const setting of settings) change(root, stepsOf(setting.key), setting)
  const indent =
    /^[{[]\r?\n([ \t]+)/.exec(text.trimStart())?.[1] ?? (text.trim() === '' || /[\n]/.test(text.trim()) ? '  ' : '')
  return `${JSON.stringify(root, null, indent)}${text === '' || text.endsWith('\n') ? '\n' : ''}`
}

function parsed(text: string): unknown {
  if (isDeeperThan(text, MOST_BODY_DEPTH * 4)) throw new ConfigFileProblem('is nested too deep')
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new ConfigFileProblem(`is not valid JSON: ${error instanceof Error ? error.message.slice(0, 200) : ''}`)
  }
}

function change(holder: unknown, [named, ...deeper]: readonly Step[], setting: Setting): void {
  if (named === undefined) return
  const step = Array.isArray(holder) ? placeInList(named) : named
  if (typeof holder !== 'object' || holder === null) {
    throw new ConfigFileProblem(`has a single value where ${setting.key} needs an object or a list`)
  }
  if (step === EVERY) {
    for (const key of Object.keys(holder))
      change(holder, [Array.isArray(holder) ? Number(key) : key, ...deeper], setting)
    return
  }
  if (Array.isArray(holder) ? typeof step !== 'number' || step > holder.length : typeof step === 'number') {
    throw new ConfigFileProblem(`has no place ${setting.key}`)
  }
  const current: unknown = Object.hasOwn(holder, step) ? Reflect.get(holder, step) : undefined
  if (deeper.length > 0) {
    const isThere = current !== undefined && current !== null
    if (!isThere && (setting.ifValue !== undefined || deeper.includes(EVERY))) return
    const inner = isThere ? current : typeof deeper[0] === 'number' ? [] : {}
    if (!isThere) Reflect.set(holder, step, inner)
    change(inner, deeper, setting)
    return
  }
  const value = replacement(setting, textOfValue(current))
  if (value !== undefined) Reflect.set(holder, step, typedValue(value, current))
}

/** Eggs write the place in a list as `list[0]` and as `list.0`. */
function placeInList(step: Step): Step {
  const place = Number(typeof step === 'string' ? step : Number.NaN)
  return place >= 0 && Number.isSafeInteger(place) && String(place) === step ? place : step
}
