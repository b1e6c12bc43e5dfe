import { readFile, stat } from 'node:fs/promises'
import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { fileProblem, kindProblem } from '../shared/kernel/file-problem.ts'
import { nearestName } from '../shared/kernel/nearest-name.ts'
import { isRange } from '../shared/platform/public-address.ts'
import { type PullConfig, portsOf } from './files/pull-ports.ts'
import { urlProblem } from './link/daemon-url.ts'
import type { AllowedMount } from './runtime/mounts.ts'

/** The settings of `panel agent run`. `url` replaces the address of the enrolment when it is set. */
export interface AgentConfig {
  readonly dataDir: string
  readonly url: string | undefined
  readonly allowInsecure: boolean
  /** The path of certificates to trust (PEM). */
  readonly ca: string | undefined
  readonly listenerUid: number | undefined
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  readonly logFormat: 'json' | 'pretty'
  readonly docker: DockerConfig
  readonly starts: StartsConfig
  /** The folders of this machine that servers may have beside their own. */
  readonly mounts: readonly AllowedMount[]
  readonly pull: PullConfig
  readonly backups: BackupsConfig
  readonly sftp: WrittenSftp
  readonly migration: MigrationConfig
}

/** What of this machine may be moved into servers. */
export interface MigrationConfig {
  /** Folders with servers of another panel; absent: none. */
  readonly roots?: readonly string[]
}

/** Where files and consoles are reached over SSH; what is left out has a default. */
export interface WrittenSftp {
  readonly enabled: boolean
  readonly host?: string
  readonly port: number
}

/** Where backups of local stores lie on this machine. */
export interface BackupsConfig {
  /** The default one; absent: `backups` in the data folder. */
  readonly folder?: string
  /** Further ones by their names, which stores of the panel name. */
  readonly folders?: Readonly<Record<string, string>>
}

/** How servers are started by the agent itself, as after a restart of the machine. */
export interface StartsConfig {
  /** How many at the same time; absent: 4. */
  readonly atOnce?: number
}

/** What an agent knows of the container engine of its machine; what is left out has a default. */
export interface DockerConfig {
  readonly sockets?: readonly string[]
  readonly network?: string
  readonly registries?: Readonly<Record<string, { readonly username: string; readonly passwordFile: string }>>
}

/** Everything that is wrong with a configuration, in one error. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`The agent's configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
    this.problems = problems
  }
}

/** Where SSH is taken when nothing else is set. */
const SFTP_PORT = 2022

type Environment = Readonly<Record<string, string | undefined>>

const OwnFolder = z
  .string()
  .refine((path) => isAbsolute(path) && !path.split('/').includes('..'), 'must be an absolute path without ..')

const Mount = z.strictObject({
  source: OwnFolder,
  readOnly: z.boolean().default(true),
})

/** Values as they are written in agent.yaml; each is also `PANEL_<SECTION>__<KEY>` and, for the common ones, a flag. */
const ConfigFile = z.strictObject({
  mounts: z.array(Mount).max(100).optional(),
  agent: z.strictObject({ dataDir: z.string().min(1).optional() }).optional(),
  daemon: z
    .strictObject({
      url: z.string().optional(),
      allowInsecure: z.boolean().optional(),
      ca: z.string().min(1).optional(),
      listenerUid: z.int().min(0).optional(),
    })
    .optional(),
  docker: z
    .strictObject({
      socket: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
      network: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/, 'must be bridge, host or the name of a network of the engine')
        .optional(),
      registries: z
        .record(
          z.string().regex(/^[a-z0-9][a-z0-9.:-]{0,252}$/, 'must be the host of a registry, such as ghcr.io'),
          z.strictObject({
            username: z.string().min(1).max(255),
            passwordFile: z.string().refine(isAbsolute, 'must be an absolute path'),
          }),
        )
        .optional(),
    })
    .optional(),
  backups: z
    .strictObject({
      folder: OwnFolder.optional(),
      folders: z
        .record(
          z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'must be letters, digits, dots, - or _'),
          OwnFolder,
        )
        .optional(),
    })
    .optional(),
  pull: z
    .strictObject({
      allowedRanges: z
        .array(z.string().refine(isRange, 'must be a range of addresses such as 10.0.0.0/8'))
        .max(100)
        .optional(),
      allowedPorts: z
        .array(
          z.coerce
            .string()
            .refine((text) => portsOf(text) !== undefined, 'must be a port such as 8000, or ports such as 8000-8999'),
        )
        .max(100)
        .optional(),
    })
    .optional(),
  sftp: z
    .strictObject({
      enabled: z.boolean().optional(),
      host: z
        .string()
        .refine((host) => isIP(host) !== 0, 'must be an IP address of this machine')
        .optional(),
      port: z.int().min(0).max(65_535).optional(),
    })
    .optional(),
  migration: z.strictObject({ roots: z.array(OwnFolder).max(100).optional() }).optional(),
  starts: z.strictObject({ atOnce: z.int().min(1).max(1000).optional() }).optional(),
  log: z
    .strictObject({
      level: z.enum(['debug', 'info', 'warn', 'error']).optional(),
      format: z.enum(['json', 'pretty']).optional(),
    })
    .optional(),
})

const VARIABLES = {
  PANEL_AGENT__DATA_DIR: ['agent', 'dataDir'],
  PANEL_DAEMON__URL: ['daemon', 'url'],
  PANEL_DAEMON__ALLOW_INSECURE: ['daemon', 'allowInsecure'],
  PANEL_DAEMON__CA: ['daemon', 'ca'],
  PANEL_DAEMON__LISTENER_UID: ['daemon', 'listenerUid'],
  PANEL_DOCKER__SOCKET: ['docker', 'socket'],
  PANEL_DOCKER__NETWORK: ['docker', 'network'],
  PANEL_STARTS__AT_ONCE: ['starts', 'atOnce'],
  PANEL_BACKUPS__FOLDER: ['backups', 'folder'],
  PANEL_PULL__ALLOWED_RANGES: ['pull', 'allowedRanges'],
  PANEL_PULL__ALLOWED_PORTS: ['pull', 'allowedPorts'],
  PANEL_MIGRATION__ROOTS: ['migration', 'roots'],
  PANEL_SFTP__ENABLED: ['sftp', 'enabled'],
  PANEL_SFTP__HOST: ['sftp', 'host'],
  PANEL_SFTP__PORT: ['sftp', 'port'],
  PANEL_LOG__LEVEL: ['log', 'level'],
  PANEL_LOG__FORMAT: ['log', 'format'],
} as const

/** Flags of the command line; they win over the environment, which wins over the file. */
export interface AgentFlags {
  readonly configFile?: string
  readonly dataDir?: string
  readonly url?: string
  readonly allowInsecure?: boolean
  readonly ca?: string
  readonly listenerUid?: number
  readonly logLevel?: string
  readonly logFormat?: string
  /** Standard output is a terminal: logs are for a person unless something else is asked for. */
  readonly terminal?: boolean
}

/** The folder of `agent.yaml`: `$XDG_CONFIG_HOME/panel`, by default `~/.config/panel`. */
export function configFolder(env: Environment): string {
  return join(xdg(env, 'XDG_CONFIG_HOME', '.config'), 'panel')
}

/** The data folder when nothing else is set: `$XDG_DATA_HOME/panel-agent`, by default `~/.local/share/panel-agent`. */
export function defaultDataDir(env: Environment): string {
  return join(xdg(env, 'XDG_DATA_HOME', '.local/share'), 'panel-agent')
}

/** Reads the configuration of `panel agent run`. Throws a {@link ConfigError} that lists every problem at once. */
export async function readConfig(env: Environment, flags: AgentFlags = {}): Promise<AgentConfig> {
  const problems: string[] = []
  const path = flags.configFile ?? join(configFolder(env), 'agent.yaml')
  const written = await readYaml(path, flags.configFile !== undefined, problems)
  const merged = { ...sections(written) }
  for (const [name, place] of Object.entries(VARIABLES)) {
    const text = env[name]
    if (text !== undefined && text !== '') put(merged, place, readingOf(place[1], text))
  }
  put(merged, ['agent', 'dataDir'], flags.dataDir)
  put(merged, ['daemon', 'url'], flags.url)
  put(merged, ['daemon', 'allowInsecure'], flags.allowInsecure)
  put(merged, ['daemon', 'ca'], flags.ca)
  put(merged, ['daemon', 'listenerUid'], flags.listenerUid)
  put(merged, ['log', 'level'], flags.logLevel)
  put(merged, ['log', 'format'], flags.logFormat)
  const parsed = ConfigFile.safeParse(merged)
  if (!parsed.success) {
    for (const issue of parsed.error.issues) problems.push(...issueLines(issue, path))
    throw new ConfigError(problems)
  }
  const { agent, daemon, log, docker, starts, mounts = [], pull, backups, sftp, migration } = parsed.data
  const allowInsecure = daemon?.allowInsecure ?? false
  const dataDir = agent?.dataDir ?? defaultDataDir(env)
  if (!isAbsolute(dataDir)) problems.push('agent.dataDir: must be an absolute path')
  const problem = daemon?.url === undefined ? undefined : urlProblem(daemon.url, allowInsecure)
  if (problem !== undefined) problems.push(`daemon.url: ${problem}`)
  if (problems.length > 0) throw new ConfigError(problems)
  return {
    ...{ dataDir, url: daemon?.url, allowInsecure, ca: daemon?.ca, listenerUid: daemon?.listenerUid },
    logLevel: log?.level ?? 'info',
    logFormat: log?.format ?? (flags.terminal === true ? 'pretty' : 'json'),
    docker: dockerOf(docker),
    starts: starts?.atOnce === undefined ? {} : { atOnce: starts.atOnce },
    mounts,
    pull: pullOf(pull),
    backups: backupsOf(backups),
    sftp: {
      enabled: sftp?.enabled ?? true,
      port: sftp?.port ?? SFTP_PORT,
      ...(sftp?.host === undefined ? {} : { host: sftp.host }),
    },
    migration: migration?.roots === undefined ? {} : { roots: migration.roots },
  }
}

/** What the agent inside a daemon takes from the same places. Throws a {@link ConfigError}. */
export async function readEmbeddedConfig(
  env: Environment = process.env,
): Promise<Pick<AgentConfig, 'docker' | 'starts' | 'mounts' | 'pull' | 'backups' | 'sftp' | 'migration'>> {
  const { docker, starts, mounts, pull, backups, sftp, migration } = await readConfig(env)
  return { docker, starts, mounts, pull, backups, sftp, migration }
}

function backupsOf({ folder, folders }: z.infer<typeof ConfigFile>['backups'] & object = {}): BackupsConfig {
  return { ...(folder === undefined ? {} : { folder }), ...(folders === undefined ? {} : { folders }) }
}

function dockerOf(written: z.infer<typeof ConfigFile>['docker']): DockerConfig {
  const { socket, network, registries } = written ?? {}
  return {
    ...(socket === undefined ? {} : { sockets: [socket] }),
    ...(network === undefined ? {} : { network }),
    ...(registries === undefined ? {} : { registries }),
  }
}

function pullOf({ allowedRanges, allowedPorts }: z.infer<typeof ConfigFile>['pull'] = {}): PullConfig {
  return {
    ...(allowedRanges === undefined ? {} : { allowedRanges }),
    ...(allowedPorts === undefined ? {} : { allowedPorts }),
  }
}

/** The names of all settings, as people write them: `agent.dataDir`. */
export function configNames(): string[] {
  return Object.entries(ConfigFile.shape).flatMap(([section, schema]) => {
    const inner = schema.unwrap()
    return inner instanceof z.ZodArray ? [] : Object.keys(inner.shape).map((name) => `${section}.${name}`)
  })
}

/** One line for each setting that is wrong; unknown names come with the one that may be meant. */
function issueLines(issue: z.core.$ZodIssue, path: string): string[] {
  if (issue.code !== 'unrecognized_keys') return [`${issue.path.join('.') || path}: ${issue.message}`]
  return issue.keys.map((key) => {
    const name = [...issue.path, key].join('.')
    const nearest = nearestName(name, issue.path.length === 0 ? Object.keys(ConfigFile.shape) : configNames())
    return `${name}: there is no such setting${nearest === undefined ? '' : `; did you mean ${nearest}?`}`
  })
}

/** Names that begin like ours and mean nothing here; worth a warning, because a slip of the pen looks the same. */
export function unknownVariables(env: Environment): string[] {
  return Object.keys(env).filter(
    (name) => /^PANEL_[A-Z]+__/.test(name) && !Object.hasOwn(VARIABLES, name) && !DAEMONS.test(name),
  )
}

/** What the daemon reads; both may be given one environment file. */
const DAEMONS = /^PANEL_(?:(?:HTTP|DATA|CONSOLE|LIMITS)__\w+|AGENT__EMBEDDED)$/

type Sections = Record<string, Record<string, unknown>>

async function readYaml(path: string, required: boolean, problems: string[]): Promise<unknown> {
  try {
    const problem = kindProblem(path, await stat(path))
    if (problem !== undefined) throw new Error(problem)
    return parse(await readFile(path, 'utf8'))
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (!missing || required) problems.push(`${path}: ${fileProblem(path, error).split('\n')[0]}`)
    return undefined
  }
}

/** A copy whose sections may be written to; what is no section stays as it is and is refused by the schema. */
function sections(written: unknown): Sections {
  if (written === undefined || written === null) return {}
  return structuredClone(written) as Sections // the schema validates it right after the merge
}

function put(into: Sections, [section, key]: readonly [string, string], value: unknown): void {
  if (value === undefined) return
  const present = into[section]
  into[section] = { ...(typeof present === 'object' ? present : {}), [key]: value }
}

function readingOf(key: string, text: string): unknown {
  if (key === 'listenerUid' || key === 'atOnce' || key === 'port') return /^\d+$/.test(text) ? Number(text) : text
  if (key === 'allowedRanges' || key === 'allowedPorts' || key === 'roots')
    return text.split(',').map((range) => range.trim())
  if (key !== 'allowInsecure' && key !== 'enabled') return text
  if (['1', 'true', 'yes'].includes(text)) return true
  return ['0', 'false', 'no'].includes(text) ? false : text
}

function xdg(env: Environment, name: string, below: string): string {
  const value = env[name]
  // The XDG specification says that a relative path is to be ignored.
  if (value !== undefined && isAbsolute(value)) return value
  return join(env['HOME'] ?? homedir(), below)
}
