import { isDeepStrictEqual } from 'node:util'
import type { EggFormat } from '../api/template-eggs.ts'
import type { NewTemplate, TemplateVariable } from '../api/template-fields.ts'
import type { ConfigFile } from '../protocol/config-files.ts'
import { isObject } from './document.ts'
import { type ImportedEgg, importEgg } from './egg-import.ts'
import { withoutMarks } from './egg-startup.ts'

type Fields = Readonly<Record<string, unknown>>

/** What is exported: a template, the egg that it was imported from, and how the result is to be. */
export interface EggExport {
  readonly template: NewTemplate
  /** The document that the import kept. */
  readonly egg: Fields | null
  /** Absent: that of the egg, or PTDL_v2. */
  readonly format?: EggFormat | undefined
  readonly exportedAt: string
}

/**
 * Writes a template as an egg. In the format that it was imported from the document is equal to that egg, but for what was edited since;
 * what this panel does not use comes from the egg in every format.
 */
export function exportEgg({ template, egg, format, exportedAt }: EggExport): Record<string, unknown> {
  const imported = egg === null ? undefined : importEgg(egg)
  const to = format ?? imported?.origin.format ?? 'PTDL_v2'
  if (imported !== undefined && imported.origin.format === to) return edited(template, imported)
  const head = {
    _comment: 'EXPORTED BY PANEL',
    meta: { version: to, update_url: imported?.origin.updateUrl ?? null },
    exported_at: exportedAt,
  }
  const uuid = to.startsWith('PLCN') && typeof imported?.origin.uuid === 'string' ? { uuid: imported.origin.uuid } : {}
  const written: Record<string, unknown> = {}
  for (const part of PARTS) Object.assign(written, part.write(template, to, written))
  return { ...head, ...uuid, ...written, variables: template.variables.map((one, at) => newVariable(one, at, to)) }
}

/** The egg with the parts of it written anew whose fields are no longer what the import made of them. */
function edited(template: NewTemplate, imported: ImportedEgg): Record<string, unknown> {
  const { document, origin } = imported
  let egg: Record<string, unknown> = { ...document }
  for (const { fields, write } of PARTS) {
    if (fields.every((field) => isDeepStrictEqual(template[field], imported.template[field]))) continue
    egg = { ...egg, ...write(template, origin.format, egg) }
  }
  if (isDeepStrictEqual(template.variables, imported.template.variables)) return egg
  return { ...egg, variables: editedVariables(template, imported) }
}

/** Variables of the egg that the import left out stay; the others are those of the template, each edited where it is another. */
function editedVariables(template: NewTemplate, imported: ImportedEgg): unknown[] {
  const { document, origin, variablesAt } = imported
  const raw = Array.isArray(document['variables']) ? document['variables'] : []
  const left = raw.filter((_, index) => !variablesAt.includes(index))
  const own = template.variables.map((variable, at) => {
    const index = imported.template.variables.findIndex(({ name }) => name === variable.name)
    const before: unknown = raw[variablesAt[index] ?? -1]
    if (!isObject(before)) return newVariable(variable, at, origin.format)
    if (isDeepStrictEqual(variable, imported.template.variables[index])) return before
    const named = { env_variable: before['env_variable'] }
    return { ...before, ...variableFields(variable, origin.format), ...named }
  })
  return [...own, ...left]
}

/** A part of an egg that is written at once, with the fields of a template that it stands for. */
interface Part {
  readonly fields: readonly (keyof NewTemplate)[]
  /** `before` is the egg so far. */
  readonly write: (template: NewTemplate, format: EggFormat, before: Fields) => Record<string, unknown>
}

const PARTS: readonly Part[] = [
  { fields: ['name'], write: ({ name }) => ({ name }) },
  { fields: ['author'], write: ({ author }) => ({ author }) },
  { fields: ['description'], write: ({ description }) => ({ description }) },
  { fields: ['tags'], write: ({ tags }, format) => (format.startsWith('PLCN') || tags.length > 0 ? { tags } : {}) },
  { fields: ['features', 'eula'], write: (template) => ({ features: featureNames(template) }) },
  { fields: ['image', 'images'], write: images },
  { fields: ['fileDenylist'], write: ({ fileDenylist }) => ({ file_denylist: fileDenylist }) },
  { fields: ['startup', 'startupCommands'], write: startup },
  { fields: ['configFiles'], write: (template, _, egg) => config(egg, { files: json(filesOf(template.configFiles)) }) },
  { fields: ['startupDetection'], write: (template, _, egg) => config(egg, { startup: json(detection(template)) }) },
  { fields: ['logFiles'], write: (template, _, egg) => config(egg, { logs: json(logs(template)) }) },
  { fields: ['stopCommand', 'sendSignalTo'], write: (template, _, egg) => config(egg, { stop: stop(template) }) },
  { fields: ['installScript', 'installImage', 'installEntrypoint'], write: installation },
]

function config(egg: Fields, part: Record<string, unknown>): Record<string, unknown> {
  const { config: before } = egg
  return { config: { ...(isObject(before) ? before : {}), ...part } }
}

/** Exporters of all panels write these fields as JSON in a text, or as what it says: every importer takes both. */
function json(value: unknown): string {
  return JSON.stringify(value, null, 4)
}

function featureNames({ features, eula }: NewTemplate): string[] {
  const names = Object.entries(features).flatMap(([name, value]) => (value === true ? [name] : []))
  return eula == null || names.includes('eula') ? names : [...names, 'eula']
}

function images({ image, images: all }: NewTemplate, format: EggFormat, before: Fields): Record<string, unknown> {
  const known = all.some((one) => one.image === image) || image === '' ? all : [{ name: image, image }, ...all]
  const refs = known.map(({ name, image: ref, local }) => [name, local === true ? `~${ref}` : ref] as const)
  if (format !== 'PTDL_v1') return { docker_images: Object.fromEntries(refs) }
  const { image: single } = before
  return { ...(typeof single === 'string' ? { image: refs[0]?.[1] ?? '' } : {}), images: refs.map(([, ref]) => ref) }
}

function startup({ startup: line, startupCommands }: NewTemplate, format: EggFormat, before: Fields) {
  const main = withoutMarks(line)
  const { startup_commands: several } = before
  if (format !== 'PLCN_v3' && !isObject(several)) return { startup: main }
  const names = isObject(several) ? Object.keys(several) : []
  const name = names.includes('Default') ? 'Default' : (names[0] ?? 'Default')
  const others = startupCommands.map((one) => [one.name, withoutMarks(one.command)] as const)
  return { startup_commands: Object.fromEntries([[name, main], ...others]) }
}

function filesOf(files: readonly ConfigFile[]): Record<string, unknown> {
  return Object.fromEntries(
    files.map(({ path, parser, create, set }) => {
      const find = new Map<string, unknown>()
      for (const { key, value, ifValue } of set) {
        const before = find.get(key)
        find.set(key, ifValue === undefined ? value : { ...(isObject(before) ? before : {}), [ifValue]: value })
      }
      return [path, { parser, ...(create ? {} : { create_file: false }), find: Object.fromEntries(find) }]
    }),
  )
}

function detection({ startupDetection: { done, stripAnsi } }: NewTemplate): Record<string, unknown> {
  const texts = done.map(({ kind, value }) => (kind === 'regex' ? `regex:${value}` : value))
  return { done: texts.length === 1 ? texts[0] : texts, ...(stripAnsi ? {} : { strip_ansi: false }) }
}

function logs({ logFiles }: NewTemplate): Record<string, unknown> {
  const [location] = logFiles
  return location === undefined ? {} : { custom: true, location }
}

function stop({ stopCommand, sendSignalTo }: NewTemplate): string {
  if (stopCommand !== '') return stopCommand
  return sendSignalTo === 'SIGINT' ? '^C' : `^${sendSignalTo}`
}

function installation({ installScript, installImage, installEntrypoint }: NewTemplate, _: EggFormat, egg: Fields) {
  const { scripts: before } = egg
  const scripts = isObject(before) ? before : {}
  const { installation: one } = scripts
  const written = { script: installScript ?? '', container: installImage ?? '', entrypoint: installEntrypoint }
  return { scripts: { ...scripts, installation: { ...(isObject(one) ? one : {}), ...written } } }
}

function newVariable(variable: TemplateVariable, at: number, format: EggFormat): Record<string, unknown> {
  return {
    ...variableFields(variable, format),
    ...(format === 'PTDL_v2' ? { field_type: 'text' } : {}),
    ...(format.startsWith('PLCN') ? { sort: at + 1 } : {}),
  }
}

function variableFields(variable: TemplateVariable, format: EggFormat): Record<string, unknown> {
  const { name, displayName, description, required, rules, uncheckedRules } = variable
  const all = [...(required && !rules.includes('required') ? ['required'] : []), ...rules, ...uncheckedRules]
  return {
    name: displayName === '' ? name : displayName,
    description,
    env_variable: name,
    default_value: variable.default,
    user_viewable: variable.userViewable,
    user_editable: variable.userEditable,
    rules: format.startsWith('PLCN') ? all : all.join('|'),
  }
}
