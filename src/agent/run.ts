import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type ErrorCode, PanelError } from '../shared/errors.ts'
import { jsonText } from '../shared/terminal-text.ts'
import { systemClock } from '../shared/time.ts'
import { type AgentConfig, type AgentFlags, ConfigError, readConfig, unknownVariables } from './config.ts'
import { enroll } from './enroll.ts'
import { AgentFailure } from './failure.ts'
import { agentLayout } from './layout.ts'
import { type AgentLog, errorText } from './logger.ts'
import { startAgent } from './main.ts'
import { readNodeFile } from './node-file.ts'
import { print, printError } from './notices.ts'

/** Options of `panel agent run`; absent ones come from the configuration. */
interface RunOptions {
  readonly config: string | undefined
  readonly panelUrl: string | undefined
  readonly dataDir: string | undefined
}

/** Options of `panel agent enroll`. */
interface EnrollOptions {
  readonly url: string
  readonly token: string
  readonly dataDir: string | undefined
  readonly config: string | undefined
  readonly caFile: string | undefined
  readonly force: boolean
}

const EXIT_CONFIG = 2
const EXIT_HOST = 14

/** `panel agent run`: in the foreground until a signal; games run on. Resolves with the exit code. */
export async function runAgent(options: RunOptions): Promise<number> {
  let config: AgentConfig
  try {
    config = await readConfig(process.env, flags(options))
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    printError(`${error.message}\n`)
    return EXIT_CONFIG
  }
  const log = consoleLog(config.logLevel)
  for (const name of unknownVariables(process.env)) log.warn({ name }, 'unknown environment variable')
  const node = await readNodeFile(agentLayout(config.dataDir).nodeFile)
  if (node === undefined) {
    printError(
      `panel: ${config.dataDir} is not enrolled yet; on the panel run "panel nodes enroll-token <node>", ` +
        'here "panel agent enroll --url <panel> --token-stdin"\n',
    )
    return EXIT_HOST
  }
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  const signalled = Promise.race(signals.map((name) => once(process, name)))
  try {
    const agent = await startAgent({
      dataDir: config.dataDir,
      connect: {
        url: config.url ?? node.url,
        nodeId: node.nodeId,
        nodeKey: node.nodeKey,
        allowInsecure: config.allowInsecure,
        ...(config.ca === undefined ? {} : { ca: await readFile(config.ca, 'utf8') }),
      },
      holder: holderCommand(),
      clock: systemClock,
      log,
      version: version(),
    })
    await Promise.race([agent.closed, signalled])
    for (const name of signals) process.once(name, () => process.exit(130))
    await agent.stop()
    return 0
  } catch (error) {
    if (!(error instanceof AgentFailure)) throw error
    printError(`panel: ${error.message}\n`)
    return EXIT_HOST
  }
}

/** `panel agent enroll`: exchanges the one-time token for the credentials of a node. */
export async function enrollAgent(options: EnrollOptions): Promise<{ nodeId: string; nodeName: string; file: string }> {
  try {
    const config = await readConfig(process.env, flags({ ...options, panelUrl: undefined }))
    const caFile = options.caFile ?? config.ca
    const enrolled = await enroll({
      dataDir: config.dataDir,
      url: options.url,
      deploymentToken: options.token,
      allowInsecure: config.allowInsecure,
      force: options.force,
      ...(caFile === undefined ? {} : { ca: await readFile(caFile, 'utf8') }),
    })
    return { ...enrolled, file: agentLayout(config.dataDir).nodeFile }
  } catch (error) {
    if (!(error instanceof AgentFailure)) throw error
    const codes: Partial<Record<AgentFailure['code'], ErrorCode>> = {
      CONFLICT_STATE: 'CONFLICT',
      TIMEOUT: 'SHUTTING_DOWN',
      BAD_REQUEST: 'VALIDATION_ERROR',
    }
    throw new PanelError(codes[error.code] ?? 'AGENT_ERROR', error.message, { cause: error })
  }
}

/** The command that starts a holder: this very program. */
function holderCommand(): readonly [string, ...string[]] {
  return [process.execPath, fileURLToPath(new URL('../../bin/panel.js', import.meta.url)), '__holder']
}

/** The version in package.json, whose place differs between the compiled program in its repository and elsewhere. */
function version(): string {
  const load = createRequire(import.meta.url)
  for (const path of ['../../package.json', '../../../package.json']) {
    try {
      const found: unknown = load(path)
      if (typeof found === 'object' && found !== null && 'version' in found) return String(found.version)
    } catch {
      // not there: the other place is tried next
    }
  }
  return 'unknown'
}

function flags(options: RunOptions): AgentFlags {
  return {
    ...(options.config === undefined ? {} : { configFile: options.config }),
    ...(options.dataDir === undefined ? {} : { dataDir: options.dataDir }),
    ...(options.panelUrl === undefined ? {} : { url: options.panelUrl }),
  }
}

/** JSON lines on standard output, with the daemon's field names. */
function consoleLog(level: AgentConfig['logLevel']): AgentLog {
  const order = ['debug', 'info', 'warn', 'error']
  const say =
    (own: 'info' | 'warn' | 'error') =>
    (fields: Readonly<Record<string, unknown>>, msg: string): void => {
      if (order.indexOf(own) < order.indexOf(level)) return
      const shown = Object.fromEntries(
        Object.entries(fields).map(([name, value]) => [name, value instanceof Error ? errorText(value) : value]),
      )
      print(`${jsonText({ level: own, time: new Date(systemClock.nowMs()), component: 'agent', ...shown, msg })}\n`)
    }
  return { info: say('info'), warn: say('warn'), error: say('error') }
}
