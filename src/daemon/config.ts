import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { parse } from 'yaml'
import { z } from 'zod'
import { credentialKeyProblem } from './core/secrets.ts'

/** Everything that is wrong with the configuration, at once. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  constructor(problems: readonly string[]) {
    super(`The configuration is not valid:\n${problems.map((problem) => `  ${problem}`).join('\n')}`)
  }
}

/** What the daemon is started with, frozen. */
export interface Config {
  readonly dataDir: string
  readonly host: string
  readonly port: number
  readonly tls: { readonly cert: string; readonly key: string } | undefined
  readonly trustedProxies: readonly string[]
  readonly logLevel: string
  readonly logFormat: 'json' | 'pretty'
  readonly credentialKey: string | undefined
  readonly setupToken: string | undefined
  readonly embeddedAgent: boolean
  /** Settings that the file or the environment decides. */
  readonly fixed: Readonly<Record<string, number>>
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

const LIMITS = {
  streamsPerServer: 'limits.streamsPerServer',
  streamsPerUser: 'limits.streamsPerUser',
  requestsPerMinute: 'limits.requestsPerMinute',
  authRequestsPerMinute: 'limits.authRequestsPerMinute',
  consoleCommandsPerMinute: 'limits.consoleCommandsPerMinute',
} as const

const count = z.coerce.number().int().min(1)

const File = z
  .strictObject({
    http: z
      .strictObject({
        listen: z.string(),
        tlsCert: z.string(),
        tlsKey: z.string(),
        trustedProxies: z.union([z.array(z.string()), z.string().transform((text) => text.split(','))]),
      })
      .partial(),
    data: z.strictObject({ dir: z.string() }).partial(),
    log: z
      .strictObject({ level: z.enum(['trace', 'debug', 'info', 'warn', 'error']), format: z.enum(['json', 'pretty']) })
      .partial(),
    agent: z
      .strictObject({ embedded: z.union([z.boolean(), z.enum(['true', 'false']).transform((t) => t === 'true')]) })
      .partial(),
    console: z.strictObject({ logMb: count }).partial(),
    limits: z
      .strictObject({
        streamsPerServer: count,
        streamsPerUser: count,
        requestsPerMinute: count,
        authRequestsPerMinute: count,
        consoleCommandsPerMinute: count,
      })
      .partial(),
  })
  .partial()

type Environment = Readonly<Record<string, string | undefined>>

/** Names of variables that other parts of the program read. */
const FOREIGN =
  /^PANEL_(URL|TOKEN|CONTEXT|CONFIG_DIR|OUTPUT|NO_INPUT|DEBUG|NO_COLOR|PAGER|NO_UPDATE_NOTIFIER|NODE|TOTP|TEST_.*|MIGRATION_.*|DAEMON__.*|AGENT__.*)$/

/** The data folder without any setting: `$XDG_DATA_HOME/panel`. */
export function defaultDataDir(env: Environment = process.env): string {
  return join(env['XDG_DATA_HOME'] || join(env['HOME'] || homedir(), '.local', 'share'), 'panel')
}

/** Reads flags, environment and `panel.yaml`. Throws one ConfigError that lists every problem. */
export function readConfig(flags: ConfigFlags, env: Environment = process.env): Config {
  const problems: string[] = []
  const file = readFile(flags.config, env, problems)
  const { values, unknown } = fromEnvironment(env)
  const merged = merge(file, values)
  const parsed = File.safeParse(merged)
  if (!parsed.success) {
    for (const issue of parsed.error.issues) problems.push(`${issue.path.join('.') || 'the file'}: ${issue.message}`)
  }
  const settings = parsed.data ?? {}
  const listen = listenAddress(flags.listen ?? settings.http?.listen ?? '127.0.0.1:7420', problems)
  const tls = readTls(settings.http?.tlsCert, settings.http?.tlsKey, problems)
  const trustedProxies = settings.http?.trustedProxies ?? []
  for (const proxy of trustedProxies) {
    if (isIP(proxy.split('/')[0] ?? '') === 0)
      problems.push(`http.trustedProxies: ${proxy} is neither an address nor a range`)
  }
  if (!isLoopback(listen.host) && tls === undefined && trustedProxies.length === 0) {
    problems.push(
      `http.listen: ${listen.host} is not loopback: give http.tlsCert and http.tlsKey, or list the addresses of your ` +
        'TLS proxy in http.trustedProxies; else keys would cross the network in clear',
    )
  }
  const secret = (name: 'PANEL_CREDENTIAL_KEY' | 'PANEL_SETUP_TOKEN'): string | undefined =>
    readSecret(name, env, problems)
  const config: Config = {
    dataDir: resolve(flags.dataDir ?? settings.data?.dir ?? defaultDataDir(env)),
    ...listen,
    tls,
    trustedProxies,
    logLevel: flags.logLevel ?? settings.log?.level ?? 'info',
    logFormat: flags.logFormat ?? settings.log?.format ?? (process.stdout.isTTY ? 'pretty' : 'json'),
    credentialKey: secret('PANEL_CREDENTIAL_KEY'),
    setupToken: secret('PANEL_SETUP_TOKEN'),
    embeddedAgent: settings.agent?.embedded ?? false,
    fixed: fixedSettings(settings),
    unknownVariables: unknown,
  }
  if (!['trace', 'debug', 'info', 'warn', 'error'].includes(config.logLevel)) {
    problems.push(`log level: ${config.logLevel} is none of trace, debug, info, warn, error`)
  }
  if (config.credentialKey !== undefined && credentialKeyProblem(config.credentialKey) !== undefined) {
    problems.push(`PANEL_CREDENTIAL_KEY: ${credentialKeyProblem(config.credentialKey)}`)
  }
  if (problems.length > 0) throw new ConfigError(problems)
  return Object.freeze(config)
}

/** Whether the address can only be reached from this machine. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

function fixedSettings(settings: z.infer<typeof File>): Record<string, number> {
  const fixed: Record<string, number> = {}
  for (const [name, key] of Object.entries(LIMITS)) {
    const value = settings.limits?.[name as keyof typeof LIMITS] // Object.entries forgets the key type
    if (value !== undefined) fixed[key] = value
  }
  if (settings.console?.logMb !== undefined) fixed['console.logMb'] = settings.console.logMb
  return fixed
}

function readFile(given: string | undefined, env: Environment, problems: string[]): unknown {
  const standard = join(env['XDG_CONFIG_HOME'] || join(env['HOME'] || homedir(), '.config'), 'panel', 'panel.yaml')
  const path = given ?? standard
  try {
    return parse(readFileSync(path, 'utf8')) ?? {}
  } catch (error) {
    const missing = error instanceof Error && 'code' in error && error.code === 'ENOENT'
    if (!missing || given !== undefined)
      problems.push(`${path}: ${error instanceof Error ? error.message : String(error)}`)
    return {}
  }
}

/** `PANEL_HTTP__LISTEN` is `http.listen`, `PANEL_CONSOLE__LOG_MB` is `console.logMb`. */
function fromEnvironment(env: Environment): { values: Record<string, Record<string, string>>; unknown: string[] } {
  const values: Record<string, Record<string, string>> = {}
  const unknown: string[] = []
  const shape = File.shape
  for (const [name, value] of Object.entries(env)) {
    if (!name.startsWith('PANEL_') || value === undefined || FOREIGN.test(name)) continue
    if (/^PANEL_(CREDENTIAL_KEY|SETUP_TOKEN)(_FILE)?$/.test(name)) continue
    const [section = '', key] = name.slice('PANEL_'.length).toLowerCase().split('__')
    const field = key?.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    if (field === undefined || !Object.hasOwn(shape, section)) unknown.push(name)
    else values[section] = { ...values[section], [field]: value }
  }
  return { values, unknown }
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

function readTls(cert: string | undefined, key: string | undefined, problems: string[]): Config['tls'] {
  if (cert === undefined && key === undefined) return undefined
  if (cert === undefined || key === undefined) {
    problems.push('http.tlsCert and http.tlsKey belong together')
    return undefined
  }
  try {
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  } catch (error) {
    problems.push(`http.tlsCert, http.tlsKey: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}

/** The value of a secret variable, of the file that `<NAME>_FILE` names, or of the systemd credential of that name. */
function readSecret(name: string, env: Environment, problems: string[]): string | undefined {
  const direct = env[name]
  if (direct !== undefined && direct !== '') return direct
  const credentials = env['CREDENTIALS_DIRECTORY']
  const systemd =
    credentials === undefined
      ? undefined
      : join(credentials, name.replace('PANEL_', '').toLowerCase().replaceAll('_', '-'))
  const path = env[`${name}_FILE`] ?? systemd
  if (path === undefined) return undefined
  try {
    return readFileSync(resolve(path), 'utf8').trim()
  } catch (error) {
    if (env[`${name}_FILE`] !== undefined)
      problems.push(`${name}_FILE: ${error instanceof Error ? error.message : String(error)}`)
    return undefined
  }
}
