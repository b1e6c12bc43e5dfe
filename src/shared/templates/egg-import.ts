import type { z } from 'zod'
import { EggFormat, type EggNote, type EggReport } from '../api/template-eggs.ts'
import { NewTemplate, type TemplateVariable } from '../api/template-fields.ts'
import type { FieldProblem } from '../kernel/errors.ts'
import { GIVEN_VARIABLES } from '../kernel/placeholders.ts'
import { mustBe } from '../kernel/refusal-words.ts'
import { StartupLineProblem } from '../kernel/startup-line.ts'
import { RESERVED_VARIABLES, SHELL_VARIABLES, type ShellName, signalOf, VariableName } from '../protocol/server-spec.ts'
import { PatternBudget } from './bounded-pattern.ts'
import { DocumentProblem, isObject } from './document.ts'
import { eggConfigFiles, jsonField, type Note, namesNothing } from './egg-config-files.ts'
import { EGG_FIELDS, Egg, type EggVariable, eggFormat } from './egg-format.ts'
import { eggStartup } from './egg-startup.ts'
import { patternProblem, templateProblems } from './template-problems.ts'
import { ruleProblems, valueProblem } from './variable-rules.ts'

/** An egg that cannot be imported, with every reason by its field. */
export class EggProblem extends Error {
  override readonly name = 'EggProblem'
  readonly details: readonly FieldProblem[]

  constructor(details: readonly FieldProblem[]) {
    const [first] = details
    super(`the egg cannot be imported: ${first?.field ?? ''} ${first?.message ?? ''}`.trim())
    this.details = details
  }
}

/** A template made of an egg, the egg without what was no part of it, and what became of each of its fields. */
export interface ImportedEgg {
  readonly template: NewTemplate
  readonly document: Readonly<Record<string, unknown>>
  readonly report: EggReport
  readonly origin: { readonly format: EggFormat; readonly uuid: string | null; readonly updateUrl: string | null }
  /** The fields of the template that the egg describes, or that stood beside it; all others have their defaults. */
  readonly described: ReadonlySet<string>
  /** Fields of a template that stood beside those of the egg. */
  readonly beside: ReadonlySet<string>
  /** For each variable of the template its place among those of the egg. */
  readonly variablesAt: readonly number[]
}

/** What the feature `eula` of eggs means: the game's own file says what is agreed to. */
const EULA = { file: 'eula.txt' } as const
/** Fields of a template of which it is plain whose they are: where it is listed. */
const HARMLESS = new Set(['nestId'])
const MOST_NOTES = 500
/** Of a startup line. */
const MOST_LINE = 4096
/** Names under which the panel itself hands values to a server, as the panels of eggs do. */
const PROVIDED = /^(?:SERVER_(?:IP|PORT|MEMORY)|P_SERVER_\w+|STARTUP|MNT_SERVER|PANEL_\w+)$/
/** Names by which programs are loaded or a shell works: another name would mean nothing. */
const LOADING = /^(?:PATH|IFS|ENV|BASH_ENV|LD_\w+|NODE_OPTIONS|PROMPT_COMMAND|PYTHONSTARTUP|SHELL)$/

/** What a person has chosen for a template that exists, whatever its egg says. */
const CHOSEN: ReadonlySet<string> = new Set(['name', 'runtimes'])

/** What an egg makes of a template that exists: all fields that it describes, but neither the name nor how it is run. */
export function eggPatch({ template, described, beside }: ImportedEgg): Partial<NewTemplate> {
  const fields = Object.entries(template).filter(([name]) => {
    return described.has(name) && (beside.has(name) || !CHOSEN.has(name))
  })
  return Object.fromEntries(fields)
}

/** What a variable of an egg is called here: names that systems and shells need for themselves have another one. */
export function variableHere(name: string): string {
  return RESERVED_VARIABLES.has(name) || SHELL_VARIABLES.has(name) ? `SERVER_${name}`.slice(0, 191) : name
}

/** Whether a document is an egg of any version, known or not. */
export function isEgg(value: unknown): boolean {
  return eggFormat(value) !== undefined
}

/**
 * Makes a template of an egg of Pterodactyl or Pelican. Fields of a template that no egg has (`nestId`, `runtimes` and the
 * like) may stand beside those of the egg and are taken over. Bounded in time by the size of the egg. Throws an {@link EggProblem}, and
 * nothing else, for what is not one or cannot be used.
 */
export function importEgg(value: unknown): ImportedEgg {
  const kind = eggFormat(value)
  if (kind === undefined) throw notOne('is no egg of Pterodactyl or Pelican')
  if (kind === 'unknown') {
    throw notOne(`is of a version that this panel does not read; it reads ${EggFormat.options.join(', ')}`)
  }
  const fields = isObject(value) ? Object.entries(value) : []
  const isOurs = (key: string): boolean => Object.hasOwn(NewTemplate.shape, key) && !EGG_FIELDS.has(key)
  const document = Object.fromEntries(fields.filter(([key]) => !isOurs(key) && key !== 'egg'))
  const ours = Object.fromEntries(fields.filter(([key]) => isOurs(key)))
  const parsed = Egg.safeParse(document, { error: mustBe })
  if (!parsed.success) throw new EggProblem(problemsOf(parsed.error))
  const made = new Import(parsed.data, kind)
  const described = { ...made.template(), ...ours }
  const template = NewTemplate.safeParse(described, { error: mustBe })
  if (!template.success) throw new EggProblem(problemsOf(template.error))
  const problems = templateProblems(template.data)
  if (problems.length > 0) throw new EggProblem(problems.slice(0, 50))
  return {
    template: template.data,
    document,
    report: { format: kind.format, notes: [...made.notes, ...notesOfOwn(ours)].slice(0, MOST_NOTES) },
    origin: {
      format: kind.format,
      uuid: parsed.data.uuid ?? null,
      updateUrl: parsed.data.meta?.update_url ?? null,
    },
    described: new Set(Object.keys(described)),
    beside: new Set(Object.keys(ours)),
    variablesAt: made.variablesAt,
  }
}

/** A document that somebody hands on as an egg may choose by them what is run, and with which folders of the node. */
function notesOfOwn(ours: Readonly<Record<string, unknown>>): EggReport['notes'] {
  const message = 'is no field of eggs, and is taken over as that of a template'
  return Object.keys(ours)
    .filter((field) => !HARMLESS.has(field))
    .map((field) => ({ kind: 'warning', field, message }))
}

function notOne(message: string): EggProblem {
  return new EggProblem([{ field: '', message }])
}

function problemsOf(error: z.ZodError): FieldProblem[] {
  return error.issues
    .slice(0, 50)
    .map(({ path, message }) => ({ field: path.map(String).join('.').slice(0, 300), message }))
}

/** One egg on its way to a template. */
class Import {
  readonly #egg: Egg
  readonly #kind: { readonly format: EggFormat; readonly declared: boolean }
  readonly #budget = new PatternBudget()
  /** Variables that are named otherwise here. */
  readonly #renamed = new Map<string, string>()
  /** The names of the variables that are kept. */
  readonly #known = new Set<string>()
  /** One for all lines: bash reads what is written for `sh`. */
  #shell: ShellName = 'sh'
  readonly notes: EggNote[] = []
  variablesAt: readonly number[] = []

  constructor(egg: Egg, kind: { readonly format: EggFormat; readonly declared: boolean }) {
    this.#egg = egg
    this.#kind = kind
  }

  template(): Record<string, unknown> {
    const egg = this.#egg
    if (!this.#kind.declared) this.#note('warning', 'meta.version', `is missing; it looks like ${this.#kind.format}`)
    this.#keepForeign()
    const variables = this.#variables()
    const images = this.#images()
    const image = images[0]?.image
    if (image === undefined)
      throw new EggProblem([{ field: this.#imagesField, message: 'names no image; one is required' }])
    const script = egg.scripts?.installation
    const installScript = (script?.script ?? '').replace(/\r\n?/g, '\n')
    return {
      name: egg.name,
      description: egg.description === '' ? null : egg.description,
      ...(egg.author === '' ? {} : { author: egg.author }),
      version: this.#kind.format,
      runtimes: ['docker'],
      image,
      images,
      ...this.#startup(),
      ...this.#stop(),
      startupDetection: this.#detection(),
      variables,
      installScript: installScript === '' ? null : installScript,
      installEntrypoint: script?.entrypoint === undefined || script.entrypoint === '' ? 'bash' : script.entrypoint,
      installImage: script?.container === undefined || script.container === '' ? null : script.container,
      configFiles: this.#read('config.files', () =>
        eggConfigFiles(egg.config.files, {
          renamed: this.#renamed,
          variables: this.#known,
          budget: this.#budget,
          note: this.#note,
        }),
      ),
      fileDenylist: this.#texts('file_denylist', egg.file_denylist, 500),
      logFiles: this.#logFiles(),
      features: Object.fromEntries(this.#texts('features', egg.features, 100).map((name) => [name, true])),
      tags: this.#first('tags', this.#texts('tags', egg.tags, 100), 50),
      eula: egg.features.includes('eula') ? EULA : null,
    }
  }

  readonly #note: Note = (kind, field, message) => {
    if (this.notes.length < MOST_NOTES)
      this.notes.push({ kind, field: field.slice(0, 300), message: message.slice(0, 500) })
  }

  get #imagesField(): string {
    return this.#kind.format === 'PTDL_v1' ? 'images' : 'docker_images'
  }

  /** Texts that a template has room for; an exporter may leave empty ones. */
  #texts(field: string, list: readonly string[], most: number): string[] {
    const kept = list.filter((text) => text !== '' && text.length <= most)
    if (kept.length < list.length)
      this.#note('unused', field, `has entries that are empty or longer than ${most} characters`)
    return [...new Set(kept)]
  }

  #first<T>(field: string, list: readonly T[], most: number): T[] {
    if (list.length > most) this.#note('unused', field, `has ${list.length} entries; the first ${most} are kept`)
    return list.slice(0, most)
  }

  #keepForeign(): void {
    const known = new Set([...EGG_FIELDS, 'meta'])
    for (const name of Object.keys(this.#egg)
      .filter((key) => !known.has(key))
      .slice(0, 50)) {
      this.#note('kept', name, 'means nothing to this panel; the export has it')
    }
    const icon = ['image', 'icon'].find((name) => isIcon(this.#egg[name]))
    if (icon !== undefined) this.#note('kept', icon, 'is an icon; the export has it')
  }

  #images(): { name: string; label?: string; image: string; local?: boolean }[] {
    const egg = this.#egg
    const single = typeof egg.image === 'string' && !isIcon(egg.image) ? [egg.image] : []
    const listed = isObject(egg.docker_images)
      ? Object.entries(egg.docker_images)
      : [egg.docker_images, egg.images, single].flat().map((ref) => [ref, ref] as const)
    const images = listed.flatMap(([label, value]) => {
      if (typeof value !== 'string' || value.trim() === '') return []
      // Older maps hold `label|reference`.
      const ref = value.slice(value.lastIndexOf('|') + 1).trim()
      const local = ref.startsWith('~')
      const [name, image] = [String(label).slice(0, 100), local ? ref.slice(1) : ref]
      if (image === '' || image.length > 300 || name === '') {
        this.#note('unused', this.#imagesField, `has an image that cannot be kept: ${name.slice(0, 50)}`)
        return []
      }
      return [{ name, image, ...(local ? { local } : {}) }]
    })
    return this.#first(this.#imagesField, images, 50)
  }

  /** `startup`, or of several lines the one named Default, or the first. */
  #startup(): { startup: string; startupCommands: { name: string; command: string }[]; shell: ShellName } {
    const { startup, startup_commands: several } = this.#egg
    const listed = isObject(several) ? Object.entries(several) : [['Default', startup] as const]
    const lines = listed.filter(
      (line): line is [string, string] => typeof line[1] === 'string' && line[1].trim() !== '',
    )
    const field = isObject(several) ? 'startup_commands' : 'startup'
    if (lines.length > 0 && lines.length < listed.length)
      this.#note('unused', field, 'has entries that are no startup lines')
    const main = lines.find(([name]) => name === 'Default') ?? lines[0]
    if (main === undefined) throw new EggProblem([{ field, message: 'is required' }])
    const read = ([name, line]: readonly [string, string]): string => {
      const at = isObject(several) ? `${field}.${name}` : field
      if (line.length > MOST_LINE)
        throw new EggProblem([{ field: at, message: `is longer than ${MOST_LINE} characters` }])
      return this.#read(at, () => this.#line(at, line))
    }
    const others = lines.filter((line) => line !== main)
    const made = {
      startup: read(main),
      startupCommands: others.map((line) => ({ name: line[0], command: read(line) })),
    }
    return { ...made, shell: this.#shell }
  }

  #line(field: string, line: string): string {
    const { command, variables, split, notes, shell } = eggStartup(line, this.#renamed)
    if (shell !== 'sh') this.#shell = shell
    const unknown = variables.filter((name) => !this.#known.has(name) && !GIVEN_VARIABLES.has(name))
    if (unknown.length > 0) this.#note('warning', field, namesNothing(unknown))
    if (split.length > 0) {
      this.#note('split', field, `leaves these unquoted, so that they are split at blanks: ${split.join(', ')}`)
    }
    for (const message of notes) this.#note('warning', field, message)
    return command
  }

  #stop(): { stopCommand: string; sendSignalTo?: string } {
    const stop = this.#egg.config.stop.trim()
    if (stop === '') {
      this.#note('warning', 'config.stop', 'is empty: a stop kills the server at once')
      return { stopCommand: '', sendSignalTo: 'SIGKILL' }
    }
    if (!stop.startsWith('^')) return { stopCommand: stop }
    const signal = stop === '^X' ? 'SIGKILL' : signalOf(stop === '^^C' ? '^C' : stop.toUpperCase())
    if (signal === undefined)
      this.#note('changed', 'config.stop', `names no signal that a stop may use; it is SIGTERM here`)
    return { stopCommand: '', sendSignalTo: signal ?? 'SIGTERM' }
  }

  #detection(): { done: { kind: string; value: string }[]; stripAnsi: boolean } {
    const startup = this.#read('config.startup', () => jsonField(this.#egg.config.startup))
    const { done, strip_ansi: strip } = isObject(startup) ? startup : { done: undefined, strip_ansi: undefined }
    const texts = [done].flat().filter((text): text is string => typeof text === 'string' && text !== '')
    const rules = texts.flatMap((text, index) => {
      const isPattern = text.startsWith('regex:')
      const value = isPattern ? text.slice('regex:'.length) : text
      const problem =
        value.length > 500 || index >= 20 ? 'is too long' : isPattern ? patternProblem(value, this.#budget) : undefined
      if (problem === undefined && value !== '') return [{ kind: isPattern ? 'regex' : 'contains', value }]
      this.#note(
        'unused',
        'config.startup.done',
        `${problem ?? 'is empty'}; the server is running without it after 120 s`,
      )
      return []
    })
    return { done: rules, stripAnsi: strip !== false }
  }

  /** Older eggs say where the game writes its log. */
  #logFiles(): string[] {
    const logs = this.#read('config.logs', () => jsonField(this.#egg.config.logs))
    const location = isObject(logs) ? logs['location'] : undefined
    if (typeof location !== 'string' || location === '') return []
    const path = NewTemplate.shape.logFiles.safeParse([location.replace(/^(?:\.?\/)+/, '')])
    if (path.success) {
      this.#note('kept', 'config.logs', 'names a log file; nothing is done with it yet')
      return path.data
    }
    this.#note('unused', 'config.logs.location', 'is no path inside the server folder')
    return []
  }

  #variables(): TemplateVariable[] {
    const sorted = this.#egg.variables
      .map((variable, index) => ({ variable, index }))
      .sort((a, b) => (a.variable.sort ?? a.index) - (b.variable.sort ?? b.index))
    const taken = new Set(this.#egg.variables.map(({ env_variable: name }) => name))
    const kept: { made: TemplateVariable; index: number }[] = []
    for (const { variable, index } of sorted) {
      const field = `variables.${index}`
      const name = this.#nameOf(variable.env_variable, `${field}.env_variable`, taken)
      if (name === undefined) continue
      if (kept.some(({ made }) => made.name === name)) {
        this.#note('unused', `${field}.env_variable`, `is used twice: ${name}`)
      } else kept.push({ made: this.#variable(variable, name, field), index })
    }
    for (const { made } of kept) this.#known.add(made.name)
    this.variablesAt = kept.map(({ index }) => index)
    return kept.map(({ made }) => made)
  }

  #nameOf(name: string, field: string, taken: ReadonlySet<string>): string | undefined {
    if (PROVIDED.test(name)) {
      this.#note('unused', field, `${name} is set by the panel itself`)
      return undefined
    }
    if (LOADING.test(name)) {
      this.#note('unused', field, `${name} changes how programs are loaded and is never set by a template`)
      return undefined
    }
    if (!VariableName.safeParse(name).success) {
      this.#note('unused', field, 'begins with a digit: no shell has such a variable')
      return undefined
    }
    const other = variableHere(name)
    if (other === name) return name
    if (taken.has(other)) {
      this.#note('unused', field, `${name} is a name of the system, and ${other} is taken`)
      return undefined
    }
    this.#renamed.set(name, other)
    this.#note('changed', field, `${name} is a name of the system; it is ${other} here, in startup lines and files too`)
    return other
  }

  #variable(variable: EggVariable, name: string, field: string): TemplateVariable {
    const rules: string[] = []
    const uncheckedRules: string[] = []
    for (const [index, rule] of variable.rules.entries()) {
      if (rules.length >= 20 || uncheckedRules.length >= 20 || rule.length > 2000) {
        this.#note('unused', `${field}.rules.${index}`, 'is one rule too many, or longer than 2000 characters')
        continue
      }
      const [problem] = ruleProblems([rule], this.#budget)
      if (problem === undefined) rules.push(rule)
      else {
        uncheckedRules.push(rule)
        this.#note('rule', `${field}.rules.${index}`, `${problem.message}; values of ${name} are not checked by it`)
      }
    }
    const made = {
      name,
      displayName: variable.name,
      description: variable.description.replace(/\r\n?/g, '\n'),
      default: variable.default_value,
      required: rules.includes('required'),
      input: inputOf(rules),
      rules,
      uncheckedRules,
      userViewable: variable.user_viewable,
      userEditable: variable.user_editable,
      secret: false,
    }
    const problem = made.default === '' ? undefined : valueProblem(made, made.default, { budget: this.#budget })
    if (problem === undefined) return made
    this.#note('changed', `${field}.default_value`, `breaks its own rules (${problem}); it is empty here`)
    return { ...made, default: '' }
  }

  /** Problems with a part of the egg, by its field. */
  #read<T>(field: string, work: () => T): T {
    try {
      return work()
    } catch (error) {
      if (error instanceof DocumentProblem || error instanceof StartupLineProblem) {
        throw new EggProblem([{ field, message: error.message }])
      }
      throw error
    }
  }
}

function isIcon(value: unknown): boolean {
  return typeof value === 'string' && value.startsWith('data:')
}

function inputOf(rules: readonly string[]): TemplateVariable['input'] {
  if (rules.includes('boolean')) return 'checkbox'
  if (rules.includes('integer') || rules.includes('numeric')) return 'number'
  return rules.some((rule) => rule.startsWith('in:')) ? 'select' : 'text'
}
