import { z } from 'zod'
import { EggFormat } from '../api/template-eggs.ts'
import { isObject } from './document.ts'

/** What another panel's exporter may have made of a text: its YAML turns every text that is JSON into what that JSON says. */
function asText(value: unknown): unknown {
  if (value === null || value === undefined) return ''
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** What may be absent. */
const anything = z.unknown().optional()
const text = (most: number) => anything.transform(asText).pipe(z.string().max(most))
const needed = (most: number) => anything.transform(asText).pipe(z.string().trim().min(1, 'is required').max(most))
const flag = anything.transform((value) => value === true || value === 1 || value === '1' || value === 'true')
/** Says what a value must be that is something else; how much a list may hold is said by its own words. */
const kindOf = (words: string) => ({
  error: ({ code }: z.core.$ZodRawIssue) => (code === 'invalid_type' ? words : undefined),
})
/** A list, or a map with the same values; an empty map is how YAML exporters write an empty list. */
const texts = anything
  .transform((value) => {
    if (value === null || value === undefined || value === '') return []
    return isObject(value) ? Object.values(value) : value
  })
  .pipe(z.array(z.union([z.string(), z.number(), z.boolean()]).transform(String), kindOf('must be a list')).max(500))

const EggVariable = z.looseObject({
  name: text(200),
  description: text(4000),
  env_variable: needed(191).pipe(z.string().regex(/^\w+$/, 'must be letters, digits and _')),
  default_value: text(4096),
  user_viewable: flag,
  user_editable: flag,
  rules: z
    .union(
      [z.string().max(8000), z.array(z.union([z.string(), z.number()]).transform(String)).max(100), z.null()],
      'must be a list of rules, or a text with | between them',
    )
    .optional()
    .pipe(z.transform((value) => (typeof value === 'string' ? splitRules(value) : (value ?? [])))),
  sort: z.number().nullish().catch(null),
})
export type EggVariable = z.infer<typeof EggVariable>

/** What all formats have in common, every field as the panels of eggs read it. */
export const Egg = z.looseObject({
  meta: z.looseObject({ update_url: z.string().nullish().catch(null) }).nullish(),
  uuid: z.string().max(100).nullish().catch(null),
  name: needed(100),
  author: text(200),
  description: text(8000),
  features: texts,
  tags: texts,
  file_denylist: texts,
  image: anything,
  images: anything,
  docker_images: anything,
  startup: anything,
  startup_commands: anything,
  config: z
    .looseObject({ files: anything, startup: anything, logs: anything, stop: text(4096) })
    .nullish()
    .transform((value) => value ?? { files: null, startup: null, logs: null, stop: '' }),
  scripts: z
    .looseObject({
      installation: z.looseObject({ script: text(256 * 1024), container: text(300), entrypoint: text(200) }).nullish(),
    })
    .nullish(),
  variables: z
    .array(EggVariable, kindOf('must be a list of variables'))
    .max(200)
    .nullish()
    .transform((value) => value ?? []),
})
export type Egg = z.infer<typeof Egg>

/** The fields of eggs, in all formats; a template has others of the same names. */
export const EGG_FIELDS: ReadonlySet<string> = new Set([...Object.keys(Egg.shape), '_comment', 'exported_at', 'icon'])

/** What kind of egg it is, by its content; `unknown`: an egg of a version that is not read; `undefined`: no egg. */
export function eggFormat(
  value: unknown,
): { readonly format: EggFormat; readonly declared: boolean } | 'unknown' | undefined {
  if (!isObject(value)) return undefined
  const version = isObject(value['meta']) ? value['meta']['version'] : undefined
  const known = EggFormat.safeParse(version)
  if (known.success) return { format: known.data, declared: true }
  if (typeof version === 'string' && /^(?:PTDL|PLCN)_/i.test(version)) return 'unknown'
  const format = guessed(value)
  return format === undefined ? undefined : { format, declared: false }
}

/** Older exports, and those that were edited, name no version. */
function guessed(value: Readonly<Record<string, unknown>>): EggFormat | undefined {
  const { config, scripts } = value
  const hasConfig = isObject(config) && ['files', 'startup', 'stop', 'logs'].some((name) => Object.hasOwn(config, name))
  if (!hasConfig || !isObject(scripts) || !Object.hasOwn(scripts, 'installation')) return undefined
  if (Object.hasOwn(value, 'startup_commands')) return 'PLCN_v3'
  return Object.hasOwn(value, 'docker_images') ? 'PTDL_v2' : 'PTDL_v1'
}

/** Rules stand between `|`, which an expression between delimiters may have as well. */
export function splitRules(text: string): string[] {
  const rules: string[] = []
  let rest = text
  while (rest !== '') {
    const end = endOfRule(rest)
    rules.push(rest.slice(0, end).trim())
    rest = rest.slice(end + 1)
  }
  return rules.filter((rule) => rule !== '')
}

function endOfRule(text: string): number {
  const expression = /^\s*(?:not_)?regex:(.)/s.exec(text)
  const bar = text.indexOf('|')
  const simple = bar === -1 ? text.length : bar
  if (expression === null) return simple
  const [begin, delimiter = ''] = expression
  // Behind the last delimiter that a `|` or the end follows, with the letters of its flags between them.
  for (let at = begin.length; at < text.length; at++) {
    if (text[at] === '\\') at++
    else if (text[at] === delimiter) {
      const flags = /[a-zA-Z]{0,8}(?=\||$)/y
      flags.lastIndex = at + 1
      if (flags.test(text)) return flags.lastIndex
    }
  }
  return simple
}
