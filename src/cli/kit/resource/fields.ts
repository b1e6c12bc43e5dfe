import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { Args } from '../args.ts'
import { type Option, optionName } from '../command.ts'
import { usage } from '../failure.ts'
import { parsePair, readObject } from '../read-file.ts'
import type { Run } from '../run.ts'
import { resolve } from './resolve.ts'

/** The fields that the options of this command fill; a body file, read by `read`, comes first and options override it. */
export async function fieldsOf(run: Run, read: typeof readObject = readObject): Promise<Record<string, unknown>> {
  const file = run.args.text('file')
  const fields = file === undefined ? {} : await read(file, run.terminal.stdin)
  for (const option of run.command.options ?? []) {
    if (option.field === undefined) continue
    const value = await optionValue(run, option)
    if (value !== undefined) fields[option.field] = value
  }
  return fields
}

async function optionValue(run: Run, option: Option): Promise<unknown> {
  const { args } = run
  const name = optionName(option.flags)
  if (option.ref !== undefined) {
    const words = option.repeat === true ? args.list(name) : [args.text(name)].filter((word) => word !== undefined)
    if (words.length === 0) return undefined
    const ids: string[] = []
    for (const word of words) ids.push((await resolve(run, option.ref, word)).id)
    return option.repeat === true ? ids : ids[0]
  }
  switch (option.as ?? 'text') {
    case 'boolean':
      return args.choice(name)
    case 'list':
      return args.list(name).length === 0 ? undefined : args.list(name).flatMap((text) => text.split(','))
    case 'pairs':
      return args.list(name).length === 0
        ? undefined
        : Object.fromEntries(args.list(name).map((it) => parsePair(it, `--${name}`)))
    default:
      return scalar(args, name, option)
  }
}

function scalar(args: Args, name: string, option: Option): string | number | undefined {
  const text = args.text(name)
  if (text === undefined) return undefined
  switch (option.as) {
    case 'int':
    case 'number':
      return numberOf(text, name)
    case 'mib':
      return mibOf(text, name)
    case 'seconds': {
      const ms = parseDuration(text)
      if (ms === undefined) throw usage(`--${name} must be a duration such as 30s or 7d, not '${text}'`)
      return Math.round(ms / 1000)
    }
    default:
      return text
  }
}

function numberOf(text: string, name: string): number {
  // Whether it is in range and whole says the daemon, once, for every client.
  if (!/^-?\d+(\.\d+)?$/.test(text)) throw usage(`--${name} must be a number, not '${text}'`)
  return Number(text)
}

/** `512` and `512M` are MiB, `2G` is 2048. */
export function mibOf(text: string, name: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([mgt])?(?:i?b)?$/i.exec(text)
  if (match === null) throw usage(`--${name} must be a size such as 512, 512M or 2G, not '${text}'`)
  const unit = { m: 1, g: 1024, t: 1024 * 1024 }[(match[2] ?? 'm').toLowerCase()] ?? 1
  return Math.round(Number(match[1]) * unit)
}
