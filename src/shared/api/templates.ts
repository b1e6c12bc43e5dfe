import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { NestId, TemplateId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { PortName, PortProtocol, PortRole } from '../kernel/ports.ts'
import { OneLine } from '../kernel/setting-values.ts'
import { IsoTime } from '../kernel/time.ts'
import { ConfigFile, InsidePath } from '../protocol/config-files.ts'
import { QueryProtocol } from '../protocol/game-query.ts'
import { Mounts } from '../protocol/mounts.ts'
import {
  ConsoleKind,
  DoneRule,
  EulaRule,
  Listens,
  RESERVED_VARIABLES,
  RuntimeName,
  ShellName,
  ShellText,
  STDIN_CONSOLE,
  StopSignal,
  VariableName,
} from '../protocol/server-spec.ts'

const Name = OneLine.trim().min(1).max(100)

/** A group of templates, such as one game. */
export const Nest = z.object({
  id: NestId,
  name: z.string(),
  description: z.string().nullable(),
  icon: z.string().nullable(),
  author: z.string().nullable(),
  templateCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Nest = z.infer<typeof Nest>

const NestBody = z.object({
  name: Name,
  description: z.string().max(500).nullish(),
  icon: z.string().max(500).nullish(),
  author: z.string().max(200).nullish(),
})

/**
 * One variable of a template. `rules` are Laravel-style: `required`, `nullable`, `string`, `numeric`, `integer`, `boolean`,
 * `min:n`, `max:n`, `between:a,b`, `in:a,b`, `regex:/…/`, `required_if:NAME,value` and the like; an unknown rule is refused.
 */
export const TemplateVariable = z.object({
  name: VariableName.refine((name) => !RESERVED_VARIABLES.has(name), 'is set by the panel itself; choose another name'),
  /** What people are shown; empty: the name. */
  displayName: z.string().max(200).default(''),
  description: z.string().max(4000).default(''),
  default: z.string().max(4096).default(''),
  required: z.boolean().default(false),
  input: z.enum(['text', 'number', 'select', 'checkbox']).default('text'),
  rules: z.array(z.string().min(1).max(2000)).max(20).default([]),
  /** Rules of an egg that this panel cannot check: they are kept and shown, and no value is checked by them. */
  uncheckedRules: z.array(z.string().min(1).max(2000)).max(20).default([]),
  /** Whether a user without `server.update` on the panel sees it, and whether the server's members may change it. */
  userViewable: z.boolean().default(true),
  userEditable: z.boolean().default(true),
  /** Its value is masked in answers, logs and the install log; its default for all who may not edit the template. */
  secret: z.boolean().default(false),
})
export type TemplateVariable = z.infer<typeof TemplateVariable>

const TemplateImage = z.object({
  name: z.string().min(1).max(100),
  label: z.string().max(200).optional(),
  image: z.string().min(1).max(300),
  /** It is on the node already and never pulled. */
  local: z.boolean().optional(),
})

/** A further startup line with its name. */
const StartupCommand = z.object({ name: z.string().min(1).max(100), command: ShellText.min(1).max(4096) })

/** A port that its servers have beside the primary one, which is what `listens` says. */
export const TemplatePort = z.object({
  name: PortName,
  role: PortRole.default('other'),
  protocol: PortProtocol.default('both'),
  /** How far it lies from the primary port, such as 1 or -1; `null`: any port that is free. */
  offset: z.int().min(-65_534).max(65_534).nullable().default(null),
  /** The variable that gets its number. */
  variable: VariableName.refine(
    (name) => !RESERVED_VARIABLES.has(name),
    'is set by the panel itself; choose another name',
  )
    .nullable()
    .default(null),
  /** A server is not made without it; others are left out where they are taken. */
  required: z.boolean().default(true),
})
export type TemplatePort = z.infer<typeof TemplatePort>

/** When a starting server counts as running; without a rule it does after 120 s. */
export const StartupDetection = z.object({
  done: z.array(DoneRule).max(20).default([]),
  stripAnsi: z.boolean().default(true),
})

/**
 * How a running server is asked who plays. `port` names the variable whose value is the port that answers; `null`: the primary port
 * does.
 */
export const TemplateQuery = z.object({ protocol: QueryProtocol, port: VariableName.nullable().default(null) })
export type TemplateQuery = z.infer<typeof TemplateQuery>

/** How grave a line of a game is. */
export const LineLevel = z.enum(['debug', 'info', 'warn', 'error'])
export type LineLevel = z.infer<typeof LineLevel>

/** Lines that begin with a text, contain it, or are found by an expression of RE2's syntax, and how grave they are. */
export const LevelRule = z.object({
  level: LineLevel,
  kind: z.enum(['prefix', 'contains', 'regex']),
  value: z.string().min(1).max(500),
})
export type LevelRule = z.infer<typeof LevelRule>

const templateFields = {
  description: z.string().max(8000).nullable().default(null),
  author: z.string().max(200).default('unknown'),
  version: z.string().max(50).default('1.0.0'),
  /** How its servers can be run; the first one that the node offers is used. */
  runtimes: z.array(RuntimeName).min(1).max(2).default(['process']),
  /** The container image; may be empty when `docker` is not among the runtimes. */
  image: z.string().max(300).default(''),
  images: z.array(TemplateImage).max(50).default([]),
  defaultImage: z.string().max(300).nullable().default(null),
  /**
   * The shell command line of the server. `{{NAME}}` stands for a variable: one word, whatever its value is.
   * `{{NAME | split}}` among words is split at blanks, and an empty value vanishes; it is no pattern and no code either.
   */
  startup: ShellText.min(1).max(4096),
  /** The shell that runs the startup lines. A node, or an image, without it fails the start. */
  shell: ShellName.default('sh'),
  /** Further startup lines to choose from. */
  startupCommands: z.array(StartupCommand).max(20).default([]),
  /** What is typed into the console to stop the server; empty: the signal is used. `^C` and the like mean signals. */
  stopCommand: ShellText.max(4096).default(''),
  sendSignalTo: StopSignal.default('SIGTERM'),
  /** Where its servers' console is; templates that were stored before the field was there have pipes. */
  console: ConsoleKind.default(STDIN_CONSOLE),
  stopTimeoutSeconds: z.int().min(0).max(600).default(30),
  startupDetection: StartupDetection.default({ done: [], stripAnsi: true }),
  /**
   * What its servers have open on their primary port once they serve; with any but `none` they are `running` only then. `both`:
   * TCP and UDP, `any`: one of the two, `null`: it is not known.
   */
  listens: Listens.nullable().default(null),
  /** The further ports of its servers. */
  ports: z.array(TemplatePort).max(20).default([]),
  /**
   * Its games can be given no address and bind all of them: on one node no two servers have such a port by the same number,
   * whatever their addresses are.
   */
  bindsAll: z.boolean().default(false),
  variables: z.array(TemplateVariable).max(200).default([]),
  /** Files that are brought up to date before each start. */
  configFiles: z.array(ConfigFile).max(50).default([]),
  /** Folders of the node that its servers are given, as far as the node's own configuration allows them. */
  mounts: Mounts.default([]),
  /** Files that a server's members neither see nor change, by patterns as in .gitignore. */
  fileDenylist: z.array(z.string().min(1).max(500)).max(500).default([]),
  /** Files into which the game writes its log. */
  logFiles: z.array(InsidePath).max(20).default([]),
  /** How the agent asks its running servers who plays; `null`: they cannot be asked. */
  query: TemplateQuery.nullable().default(null),
  /** How grave its lines are: the first rule that fits counts, without one it is read from the words of the line. */
  logLevels: z.array(LevelRule).max(50).default([]),
  tags: z.array(z.string().min(1).max(100)).max(50).default([]),
  installScript: ShellText.max(256 * 1024)
    .nullable()
    .default(null),
  installEntrypoint: ShellText.min(1).max(200).default('sh'),
  installImage: z.string().max(300).nullable().default(null),
  installTimeoutSeconds: z.int().min(1).max(86_400).default(3600),
  /** Lets the game make user namespaces, as browsers and some launchers do; they widen what it can reach in the kernel. */
  allowUserNamespaces: z.boolean().default(false),
  supportedPorts: z.array(z.int().min(1).max(65_535)).max(100).default([]),
  allocatedMemoryMb: z.int().min(16).max(1_048_576).default(1024),
  allocatedCpuCores: z.number().min(0.1).max(1024).default(1),
  allocatedDiskMb: z.int().min(16).max(1_073_741_824).default(2048),
  features: z.record(z.string(), z.unknown()).default({}),
  nestId: NestId.nullable().default(null),
  srvService: z.string().max(100).nullable().default(null),
  srvProtocol: z.enum(['tcp', 'udp']).default('tcp'),
  /** The agreement that the game asks for before it runs. */
  eula: EulaRule.nullable().default(null),
}

/** What a server is made from: how it is installed, started, recognised as up, and stopped. */
export const NewTemplate = z.object({ name: Name, ...templateFields })
export type NewTemplate = z.infer<typeof NewTemplate>

/** The formats of eggs, the templates of Pterodactyl (PTDL) and Pelican (PLCN), that are read and written. */
export const EggFormat = z.enum(['PTDL_v1', 'PTDL_v2', 'PLCN_v1', 'PLCN_v2', 'PLCN_v3'])
export type EggFormat = z.infer<typeof EggFormat>

/**
 * What an import says of one field of an egg. `kept`: only the export has it again; `unused`: this panel does nothing
 * with it; `rule`: values are not checked by it; `split`: placeholders that are split at blanks; `changed`: it means the same in
 * other words; `warning`: look at it.
 */
export const EggNote = z.object({
  kind: z.enum(['kept', 'unused', 'rule', 'split', 'changed', 'warning']),
  /** The field of the egg, by its dotted path. */
  field: z.string(),
  message: z.string(),
})
export type EggNote = z.infer<typeof EggNote>

/** What became of an egg. */
export const EggReport = z.object({ format: EggFormat, notes: z.array(EggNote) })
export type EggReport = z.infer<typeof EggReport>

/** The egg that a template was imported from. */
const EggOrigin = z.object({ format: EggFormat, uuid: z.string().nullable(), updateUrl: z.string().nullable() })

/** An egg as it was imported; the export goes by it. */
const EggDocument = z.record(z.string(), z.unknown())

/** A stored template. */
export const Template = z.object({
  id: TemplateId,
  ...NewTemplate.shape,
  /** The egg that it was made of; absent from daemons that know no eggs. */
  origin: EggOrigin.nullable().optional(),
  nest: z.object({ id: NestId, name: z.string(), icon: z.string().nullable() }).nullable(),
  serverCount: z.int(),
  createdAt: IsoTime,
  updatedAt: IsoTime,
})
export type Template = z.infer<typeof Template>

/** What servers show of their template. */
export const TemplateLite = Template.pick({
  id: true,
  name: true,
  image: true,
  images: true,
  defaultImage: true,
  startup: true,
  startupCommands: true,
  stopCommand: true,
  console: true,
  features: true,
  variables: true,
}).extend({
  /** Absent from daemons that do not know level rules. */
  logLevels: z.array(LevelRule).optional(),
})

/** Every field of a template, each only if it is to change. Defaults do not apply. */
export const TemplatePatch = z.object(
  Object.fromEntries(
    Object.entries(NewTemplate.shape).map(([key, schema]) => [
      key,
      schema instanceof z.ZodDefault ? schema.unwrap().optional() : schema.optional(),
    ]),
  ) as { [K in keyof typeof NewTemplate.shape]: z.ZodOptional<Unwrapped<(typeof NewTemplate.shape)[K]>> }, // built key by key from that very shape
)
export type TemplatePatch = z.infer<typeof TemplatePatch>
type Unwrapped<T> = T extends z.ZodDefault<infer U> ? U : T

/** What answers show of a template beside its fields: a file made by `templates view` may be sent back. */
const ANSWERED = ['id', 'nest', 'origin', 'report', 'serverCount', 'createdAt', 'updatedAt'] as const

/** A template that was made of an egg comes with what became of the egg. */
export const ImportedTemplate = Template.extend({ report: EggReport.optional() })
export type ImportedTemplate = z.infer<typeof ImportedTemplate>

export const listNests = defineEndpoint({
  id: 'nests.list',
  tag: 'Nests',
  summary: 'List nests by name',
  method: 'GET',
  path: '/api/nests',
  access: { panel: 'template.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional() }),
  response: z.array(Nest),
  paged: true,
})

export const getNest = defineEndpoint({
  id: 'nests.get',
  tag: 'Nests',
  summary: 'Show a nest with its templates',
  method: 'GET',
  path: '/api/nests/:nestId',
  access: { panel: 'template.read' },
  params: { nestId: NestId },
  response: Nest.extend({ templates: z.array(Template) }),
  errors: ['NEST_NOT_FOUND'],
})

export const createNest = defineEndpoint({
  id: 'nests.create',
  tag: 'Nests',
  summary: 'Create a nest',
  method: 'POST',
  path: '/api/nests',
  access: { panel: 'template.create' },
  body: NestBody,
  response: Nest,
  status: 201,
  errors: ['NEST_NAME_TAKEN'],
  audit: { action: 'nest.create' },
})

export const updateNest = defineEndpoint({
  id: 'nests.update',
  tag: 'Nests',
  summary: 'Edit a nest',
  method: 'PUT',
  path: '/api/nests/:nestId',
  access: { panel: 'template.update' },
  params: { nestId: NestId },
  body: NestBody.partial(),
  response: Nest,
  errors: ['NEST_NOT_FOUND', 'NEST_NAME_TAKEN'],
  audit: { action: 'nest.update' },
})

export const deleteNest = defineEndpoint({
  id: 'nests.delete',
  tag: 'Nests',
  summary: 'Delete a nest; its templates stay',
  method: 'DELETE',
  path: '/api/nests/:nestId',
  access: { panel: 'template.delete' },
  params: { nestId: NestId },
  response: NoData,
  errors: ['NEST_NOT_FOUND'],
  audit: { action: 'nest.delete' },
})

export const listTemplates = defineEndpoint({
  id: 'templates.list',
  tag: 'Templates',
  summary: 'List templates, newest first',
  method: 'GET',
  path: '/api/templates',
  access: { panel: 'template.read' },
  query: pageQuery().extend({ search: z.string().max(200).optional(), nestId: NestId.optional() }),
  response: z.array(Template),
  paged: true,
})

export const getTemplate = defineEndpoint({
  id: 'templates.get',
  tag: 'Templates',
  summary: 'Show a template',
  method: 'GET',
  path: '/api/templates/:templateId',
  access: { panel: 'template.read' },
  params: { templateId: TemplateId },
  response: Template,
  errors: ['TEMPLATE_NOT_FOUND'],
})

export const createTemplate = defineEndpoint({
  id: 'templates.create',
  tag: 'Templates',
  summary: 'Create a template; an egg is imported',
  method: 'POST',
  path: '/api/templates',
  access: { panel: 'template.create' },
  body: NewTemplate.extend({ egg: EggDocument.nullable().default(null) }),
  ignores: ANSWERED,
  response: ImportedTemplate,
  status: 201,
  errors: ['TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.create' },
})

export const updateTemplate = defineEndpoint({
  id: 'templates.update',
  tag: 'Templates',
  summary: 'Edit a template; its servers take it over at their next start',
  method: 'PUT',
  path: '/api/templates/:templateId',
  access: { panel: 'template.update' },
  params: { templateId: TemplateId },
  body: TemplatePatch.extend({ egg: EggDocument.nullable().optional() }),
  ignores: ANSWERED,
  response: ImportedTemplate,
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.update' },
})

export const deleteTemplate = defineEndpoint({
  id: 'templates.delete',
  tag: 'Templates',
  summary: 'Delete a template that no server uses',
  method: 'DELETE',
  path: '/api/templates/:templateId',
  access: { panel: 'template.delete' },
  params: { templateId: TemplateId },
  response: NoData,
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_IN_USE'],
  audit: { action: 'template.delete' },
})

export const importEgg = defineEndpoint({
  id: 'templates.import_egg',
  tag: 'Templates',
  summary: 'Import an egg of Pterodactyl or Pelican as a template',
  method: 'POST',
  path: '/api/templates/import-pterodactyl',
  access: { panel: 'template.create' },
  body: z.looseObject({ name: z.string().optional(), nestId: NestId.nullish() }),
  response: Template.extend({ report: EggReport }),
  status: 201,
  errors: ['TEMPLATE_NAME_TAKEN', 'NEST_NOT_FOUND'],
  audit: { action: 'template.create' },
})

export const exportTemplate = defineEndpoint({
  id: 'templates.export',
  tag: 'Templates',
  summary: 'Export a template as a file that another panel can import',
  method: 'GET',
  path: '/api/templates/:templateId/export',
  access: { panel: 'template.read' },
  params: { templateId: TemplateId },
  /** `egg`: the format that it was imported from, PTDL_v2 for one that was not. */
  query: z.object({ format: z.enum(['panel', 'egg', ...EggFormat.options]).default('panel') }),
  response: z.record(z.string(), z.unknown()),
  errors: ['TEMPLATE_NOT_FOUND'],
})

/** A template that comes with the program, and what this installation has of it. */
export const CatalogTemplate = z.object({
  /** What it is installed by. */
  name: z.string(),
  /** The name of the template that it becomes. */
  title: z.string(),
  summary: z.string().nullable(),
  version: z.string(),
  runtimes: z.array(RuntimeName),
  /** Packages of Debian that its servers need on their node, and what else they need. */
  debianPackages: z.array(z.string()),
  requires: z.string().nullable(),
  /** `edited`: it was edited since, or was made by somebody under that name; `null`: there is none. */
  installed: z
    .object({ templateId: TemplateId, name: z.string(), version: z.string(), edited: z.boolean() })
    .nullable(),
  updateAvailable: z.boolean(),
})
export type CatalogTemplate = z.input<typeof CatalogTemplate>

export const listCatalog = defineEndpoint({
  id: 'templates.catalog',
  tag: 'Templates',
  summary: 'List the templates that come with the panel',
  method: 'GET',
  path: '/api/templates/catalog',
  access: { panel: 'template.read' },
  response: z.array(CatalogTemplate),
})

export const installTemplate = defineEndpoint({
  id: 'templates.install',
  tag: 'Templates',
  summary: 'Add a template of the catalogue, or bring it up to date; its servers take it over at their next start',
  method: 'POST',
  path: '/api/templates/catalog/:catalogName/install',
  access: { panel: 'template.create' },
  params: { catalogName: z.string().regex(/^[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}$/, 'must be a name of the catalogue') },
  /** `force`: overwrite what people have edited, but for its name and nest. */
  body: z.object({ force: z.boolean().default(false) }).prefault({}),
  response: Template.extend({ outcome: z.enum(['created', 'updated', 'unchanged']) }),
  errors: ['TEMPLATE_NOT_FOUND', 'TEMPLATE_EDITED', 'PERMISSION_DENIED'],
  audit: { action: 'template.install' },
})
