import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import proxyAddr from '@fastify/proxy-addr'
import { parse } from 'yaml'
import { z } from 'zod'
import { fileProblem } from '../../shared/kernel/file-problem.ts'
import { mustBe } from '../../shared/kernel/refusal-words.ts'
import { credentialKeyProblem } from '../core/secrets.ts'
import type { FixedSetting } from '../core/settings.ts'
import { readCa, readSecret, readTextSync } from './config-files.ts'
import { ConfigError, issueLines, readTls, settingNames } from './config-problems.ts'
import { fixedSettings, settingSections } from './fixed-settings.ts'

/** What the daemon is started with, frozen. */
export interface Config {
  readonly dataDir: string
  /** Where stores of the kind `local` have backups of the panel itself. */
  readonly backupDir: string
  readonly host: string
  readonly port: number
  readonly tls: { readonly cert: string; readonly key: string } | undefined
  /** Where people reach this panel, when that is not where it listens. */
  readonly publicUrl: string | undefined
  readonly trustedProxies: readonly string[]
  /** Names that the panel answers by, beside those that it knows. */
  readonly allowedHosts: readonly string[]
  /** Connections over TCP at the same time; `undefined`: by the open files that the process may have. */
  readonly maxConnections: number | undefined
  readonly logLevel: string
  readonly logFormat: 'json' | 'pretty'
  readonly credentialKey: string | undefined
  readonly setupToken: string | undefined
  readonly embeddedAgent: boolean
  /** Serve a unix socket in the data folder as well, for its owner. */
  readonly localSocket: boolean
  /** Settings that the file or the environment decides, by key. */
  readonly fixed: Readonly<Record<string, FixedSetting>>
  /** Certificates (PEM) that mail servers may be signed by, beside the usual ones. */
  readonly mailCa: string | undefined
  /** Where releases are announced; without it nobody is asked for newer versions. */
  readonly updateFeed: string | undefined
  /** Names of variables that look like ours and mean nothing. */
  readonly unknownVariables: readonly string[]
}

/** Flags of the command line; they win over the environment, which wins over the file. */
export interface ConfigFlags {
  readonly config?: string | undefined
  readonly listen?: string | undefined
  readonly dataDir?: string | undefined
  readonly logFormat?: 'json' | 'pretty' | undefined
  readonly logLevel?: string | undefined
}

const HOST_NAME = /^[a-z0-9_](?:[a-z0-9_.-]{0,252}[a-z0-9_])?$/i
const UNSAFE_FEED = 'must begin with https://, so that nobody on the way can name another version'

const File = z
  .strictObject({
    http: z
      .strictObject({
        listen: z.string(),
        publicUrl: z
          .string()
          .regex(/^https?:\/\/[^\s/?#@]+\/?$/i, 'must be a URL without a path, such as https://panel.example.org')
          .transform((text) => new URL(text).origin),
        tlsCert: z.string(),
        tlsKey: z.string(),
        trustedProxies: listOfTexts(),
        allowedHosts: listOfTexts(),
        maxConnections: z.coerce.number().int().min(4).max(10_000_000),
      })
      .partial(),
    data: z
      .strictObject({
        dir: z.string().refine((path) => path.trim() !== '', 'is empty'),
        backupDir: z.string().refine((path) => path.trim() !== '', 'is empty'),
      })
      .partial(),
    log: z
      .strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error']), format: z.enum(['json', 'pretty']) })
      .partial(),
    updates: z
      .strictObject({
        feedUrl: z
          .url({ protocol: /^https?$/ })
          .max(2000)
          .refine(isSafeFeed, UNSAFE_FEED),
      })
      .partial(),
    agent: z
      .strictObject({
        embedded: z.union([z.boolean(), z.enum(['true', 'false']).transform((text) => text === 'true')], {
          error: 'must be true or false',
        }),
      })
      .partial(),
  })
  .partial()

/** The sections that fix settings; `smtp.caFile` names a file that no request may choose. */
const FixedSections = z
  .strictObject(
    Object.fromEntries(
      Object.entries(settingSections()).map(([section, fields]) => [
        section,
        z.strictObject(section === 'smtp' ? { ...fields, caFile: z.string().min(1) } : { ...fields }).partial(),
      ]),
    ),
  )
  .partial()

type Environment = Readonly<Record<string, string | undefined>>

/** Names of variables that other parts of the program read. */
const FOREIGN =
  /^PANEL_(URL|TOKEN|CONTEXT|CONFIG_DIR|OUTPUT|NO_INPUT|DEBUG|NO_COLOR|PAGER|NO_UPDATE_NOTIFIER|NODE|TOTP|STORE_SECRET|BACKUP_PASSPHRASE|LISTENER_UID|INSECURE_HTTP|TEST_.*|MIGRATION_.*|DAEMON__.*|DOCKER__.*|BACKUPS__.*|PULL__.*|SFTP__.*|STARTS__.*|AGENT__DATA_DIR)$/

/** The data folder without any setting: `$XDG_DATA_HOME/panel`. */
export function defaultDataDir(env: Environment = process.env): string {
  return join(env['XDG_DATA_HOME'] || join(env['HOME'] || homedir(), '.local', 'share'), 'panel')
}

/** The names of all settings that are read before the database is open, and of those that fix one in it. */
export function configNames(): string[] {
  return [...settingNames(File), ...settingNames(FixedSections)]
}

/** Reads flags, environment and `panel.yaml`. Throws one ConfigError that lists every problem. */
export function readConfig(flags: ConfigFlags, env: Environment = process.env): Config {
  const { config, problems } = inspectConfig(flags, env)
  if (problems.length > 0) throw new ConfigError(problems)
  return config
}

/** The same with what is wrong beside it; what is wrong has its default in the configuration. */
export function inspectConfig(
  flags: ConfigFlags,
  env: Environment = process.env,
): { readonly config: Config; readonly problems: string[] } {
  const problems: string[] = []
  const file = readFile(flags.config, env, problems)
  const { values, variables, unknown } = fromEnvironment(env)
  const [own, sections] = split(merge(file, values))
  // Most daemons are started with nothing of one or both, and to make what checks it takes longer than the rest of this.
  const settings = isEmpty(own) ? {} : (parsePart(File, own, variables, problems) ?? {})
  const fixable = isEmpty(sections) ? {} : (parsePart(FixedSections, sections, variables, problems) ?? {})
  const listen = listenAddress(flags.listen ?? settings.http?.listen ?? '127.0.0.1:7420', problems)
  const tls = readTls(settings.http ?? {}, problems)
  const trustedProxies = settings.http?.trustedProxies ?? []
  for (const proxy of trustedProxies) {
    if (!isAddressOrRange(proxy)) problems.push(`http.trustedProxies: ${proxy} is neither an address nor a range`)
  }
  const allowedHosts = settings.http?.allowedHosts ?? []
  for (const name of allowedHosts) {
    if (!HOST_NAME.test(name))
      problems.push(
        `http.allowedHosts: ${JSON.stringify(name)} is no host name; give names without scheme, port and path`,
      )
  }
  // Files that are named and broken are a problem of their own, which is reported above.
  const tlsIsGiven = settings.http?.tlsCert !== undefined || settings.http?.tlsKey !== undefined
  if (!isLoopback(listen.host) && !tlsIsGiven && trustedProxies.length === 0) {
    problems.push(
      `http.listen: ${listen.host} is not loopback: give http.tlsCert and http.tlsKey, or list the addresses of your ` +
        'TLS proxy in http.trustedProxies; else keys would cross the network in clear',
    )
  }
  const secret = (name: 'PANEL_CREDENTIAL_KEY' | 'PANEL_SETUP_TOKEN'): string | undefined =>
    readSecret(name, env, problems)
  const dataDir = resolve(flags.dataDir ?? settings.data?.dir ?? defaultDataDir(env))
  const config: Config = {
    dataDir,
    backupDir: resolve(settings.data?.backupDir ?? join(dataDir, 'backups')),
    ...listen,
    tls,
    publicUrl: settings.http?.publicUrl,
    trustedProxies,
    allowedHosts,
    maxConnections: settings.http?.maxConnections,
    logLevel: flags.logLevel ?? settings.log?.level ?? 'info',
    logFormat: flags.logFormat ?? settings.log?.format ?? (process.stdout.isTTY ? 'pretty' : 'json'),
    credentialKey: secret('PANEL_CREDENTIAL_KEY'),
    setupToken: secret('PANEL_SETUP_TOKEN'),
    embeddedAgent: settings.agent?.embedded ?? false,
    localSocket: false,
    fixed: fixedSettings(fixable, (field) => variables.get(field), problems),
    mailCa: readCa(fixable['smtp']?.['caFile'], problems),
    updateFeed: settings.updates?.feedUrl,
    unknownVariables: unknown,
  }
  if (!['trace', 'debug', 'info', 'warn', 'error'].includes(config.logLevel)) {
    problems.push(`log level: ${config.logLevel} is none of trace, debug, info, warn, error`)
  }
  if (config.credentialKey !== undefined && credentialKeyProblem(config.credentialKey) !== undefined) {
    problems.push(`PANEL_CREDENTIAL_KEY: ${credentialKeyProblem(config.credentialKey)}`)
  }
  return { config: Object.freeze(config), problems }
}

/** Whether the address can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/** As the HTTP server takes them, but for its names of ranges. */
function isAddressOrRange(text: string): boolean {
  if (isIP(text.split('/')[0] ?? '') === 0) return false
  try {
    proxyAddr.compile(text)
    return true
  } catch {
    return false
  }
}

/** A list, or in a variable texts with commas between them. */
function listOfTexts() {
  return z
    .union([z.array(z.string()), z.string().transform((text) => text.split(','))])
    .transform((texts) => texts.map((text) => text.trim()).filter((text) => text !== ''))
}

/** A feed on this machine needs no TLS. */
function isSafeFeed(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  return protocol === 'https:' || isLoopback(hostname.replace(/^\[|\]$/g, ''))
}

function parsePart<T extends z.ZodType>(
  schema: T,
  value: unknown,
  variables: ReadonlyMap<string, string>,
  problems: string[],
): z.output<T> | undefined {
  const parsed = schema.safeParse(value, { error: mustBe })
  if (parsed.success) return parsed.data
  for (const issue of parsed.error.issues) problems.push(...issueLines(issue, configNames(), variables))
  return undefined
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length === 0
}

/** Parts what the daemon is started with from the sections that fix settings. */
function split(merged: unknown): [own: unknown, sections: Record<string, unknown>] {
  if (typeof merged !== 'object' || merged === null || Array.isArray(merged)) return [merged, {}]
  const entries = Object.entries(merged)
  const isFixable = ([name]: [string, unknown]): boolean => Object.hasOwn(FixedSections.shape, name)
  return [
    Object.fromEntries(entries.filter((entry) => !isFixable(entry))),
    Object.fromEntries(entries.filter(isFixable)),
  ]
}

function readFile(given: string | undefined, env: Environment, problems: string[]): unknown {
  const standard = join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'panel', 'panel.yaml')
  const path = given ?? standard
  try {
    return parse(readTextSync(path)) ?? {}
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    const isFolder = error instanceof Error && 'code' in error && error.code === 'EISDIR'
    if (isFolder) problems.push(`${fileProblem(path, error)}; name the file: ${join(path, 'panel.yaml')}`)
    else if (!missing || given !== undefined) problems.push(`${path}: ${fileProblem(path, error)}`)
    return {}
  }
}

/** `PANEL_HTTP__LISTEN` is `http.listen`, `PANEL_CONSOLE__LOG_MB` is `console.logMb`; `variables` maps the way back. */
function fromEnvironment(env: Environment) {
  const values: Record<string, Record<string, string>> = {}
  const variables = new Map<string, string>()
  const unknown: string[] = []
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('PANEL_') || value === undefined || FOREIGN.test(name)) continue
    if (/^PANEL_(CREDENTIAL_KEY|SETUP_TOKEN)(_FILE)?$/.test(name)) continue
    const [section = '', field] = name.slice('PANEL_'.length).toLowerCase().split('__').map(camelCase)
    if (field === undefined || !(Object.hasOwn(File.shape, section) || Object.hasOwn(FixedSections.shape, section))) {
      unknown.push(name)
      continue
    }
    values[section] = { ...values[section], [field]: value }
    variables.set(`${section}.${field}`, name)
  }
  return { values, variables, unknown }
}

function camelCase(text: string): string {
  return text.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

function merge(file: unknown, values: Record<string, Record<string, string>>): unknown {
  if (typeof file !== 'object' || file === null || Array.isArray(file)) return file
  const merged: Record<string, unknown> = { ...file }
  for (const [section, fields] of Object.entries(values)) {
    const present = merged[section]
    merged[section] = { ...(typeof present === 'object' ? present : {}), ...fields }
  }
  return merged
}

function listenAddress(text: string, problems: string[]): { host: string; port: number } {
  const match = /^(?:https?:\/\/)?(?:(\[[^\]]+\]|[^:]*):)?(\d{1,5})\/?$/.exec(text.trim())
  const port = Number(match?.[2] ?? Number.NaN)
  if (match === null || !(port >= 0 && port <= 65_535)) {
    problems.push(`http.listen: "${text}" is not host:port, :port or port`)
    return { host: '127.0.0.1', port: 0 }
  }
  const host = (match[1] ?? '').replace(/^\[|\]$/g, '')
  return { host: host === '' ? '127.0.0.1' : host, port }
}
