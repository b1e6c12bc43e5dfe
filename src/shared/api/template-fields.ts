import { z } from 'zod'
import { NestId } from '../kernel/ids.ts'
import { PortName, PortProtocol, PortRole } from '../kernel/ports.ts'
import { OneLine } from '../kernel/setting-values.ts'
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

// What a template says, as people write it; stored ones and their endpoints are in templates.ts.

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
export const NewTemplate = z.object({ name: OneLine.trim().min(1).max(100), ...templateFields })
export type NewTemplate = z.infer<typeof NewTemplate>
