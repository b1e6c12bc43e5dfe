import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { type ErrorCode, PanelError } from '../shared/kernel/errors.ts'
import { shellWord } from '../shared/kernel/shell-word.ts'
import { systemClock } from '../shared/kernel/time.ts'
import { UntrustedListener } from '../shared/platform/listener.ts'
import type { LogOutput } from '../shared/platform/log-output.ts'
import { type AgentConfig, type AgentFlags, ConfigError, readConfig, unknownVariables } from './config.ts'
import { AgentFailure } from './failure.ts'
import type { DaemonTrust } from './link/daemon-connection.ts'
import { enroll } from './link/enroll.ts'
import { type AgentLog, errorText } from './logger.ts'
import { startAgent } from './main.ts'
import { printError } from './notices.ts'
import { openAgentLog } from './own-log.ts'
import { agentLayout } from './state/layout.ts'
import { type NodeCredentials, readNodeFile } from './state/node-file.ts'

/** Options of `panel agent run`; absent ones come from the configuration. */
interface RunOptions {
  readonly config: string | undefined
  readonly panelUrl: string | undefined
  readonly dataDir: string | undefined
  readonly caFile?: string | undefined
  readonly allowInsecure?: boolean
  readonly listenerUid?: number | undefined
  readonly logFormat?: string | undefined
  readonly logLevel?: string | undefined
}

/** Options of `panel agent enroll`. */
interface EnrollOptions {
  readonly url: string
  readonly token: string
  readonly dataDir: string | undefined
  readonly config: string | undefined
  readonly caFile: string | undefined
  readonly allowInsecure: boolean
  readonly listenerUid: number | undefined
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
  const { log, output } = await openAgentLog(config)
  try {
    return await runLogged({ config, log, output, place: placeOf(options) })
  } finally {
    await output.flush()
  }
}

interface Logged {
  readonly config: AgentConfig
  readonly log: AgentLog
  readonly output: LogOutput
  /** The flags that have named the data folder. */
  readonly place: string
}

/** Without them an enrolment would go to another folder than the one that it is missed in. */
function placeOf({ dataDir, config }: RunOptions): string {
  const flag = (name: string, value: string | undefined): string =>
    value === undefined ? '' : ` --${name} ${shellWord(value)}`
  return `${flag('data-dir', dataDir)}${flag('config', config)}`
}

async function runLogged({ config, log, output, place }: Logged): Promise<number> {
  for (const name of unknownVariables(process.env)) log.warn({ name }, 'unknown environment variable')
  const node = await readNodeFile(agentLayout(config.dataDir).nodeFile)
  if (node === undefined) {
    await output.flush()
    printError(
      `panel: ${config.dataDir} is not enrolled yet; on the panel run "panel nodes enroll-token <node>", ` +
        `here "panel agent enroll --url <panel> --token-stdin${place}"\n`,
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
        ...trustOf(config, node, await caOf(config.ca)),
      },
      holder: holderCommand(),
      docker: config.docker,
      starts: config.starts,
      mounts: config.mounts,
      pull: config.pull,
      migration: config.migration,
      backups: config.backups,
      sftp: config.sftp,
      clock: systemClock,
      log,
      version: version(),
    })
    // The heap of an agent is small: the threads that V8 would wake for each collection of its young ones cost more than they save. Set when
    // all is loaded, as Node then compiles its own modules instead of using what it has ready.
    setFlagsFromString('--no-parallel-scavenge')
    await Promise.race([agent.closed, signalled])
    for (const name of signals) process.once(name, () => process.exit(130))
    await agent.stop()
    return 0
  } catch (error) {
    if (!(error instanceof AgentFailure)) throw error
    await output.flush()
    printError(`panel: ${error.message}\n`)
    return EXIT_HOST
  }
}

/** `panel agent enroll`: exchanges the one-time token for the credentials of a node. */
export async function enrollAgent(options: EnrollOptions): Promise<{ nodeId: string; nodeName: string; file: string }> {
  try {
    const config = await readConfig(process.env, flags({ ...options, panelUrl: undefined }))
    const enrolled = await enroll({
      dataDir: config.dataDir,
      url: options.url,
      deploymentToken: options.token,
      force: options.force,
      ...trustOf(config, undefined, await caOf(config.ca)),
    })
    return { ...enrolled, file: agentLayout(config.dataDir).nodeFile }
  } catch (error) {
    if (error instanceof ConfigError) {
      const message = `The agent's configuration is not valid: ${error.problems.join('; ')}`
      throw new PanelError('VALIDATION_ERROR', message, { cause: error })
    }
    if (!(error instanceof AgentFailure)) throw error
    const codes: Partial<Record<AgentFailure['code'], ErrorCode>> = {
      CONFLICT_STATE: 'CONFLICT',
      TIMEOUT: 'SHUTTING_DOWN',
      BAD_REQUEST: 'VALIDATION_ERROR',
    }
    const meta = metaOf(error)
    throw new PanelError(codes[error.code] ?? 'AGENT_ERROR', error.message, { cause: error, meta })
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
    ...(options.caFile === undefined ? {} : { ca: options.caFile }),
    ...(options.allowInsecure === true ? { allowInsecure: true } : {}),
    ...(options.listenerUid === undefined ? {} : { listenerUid: options.listenerUid }),
    ...(options.logFormat === undefined ? {} : { logFormat: options.logFormat }),
    ...(options.logLevel === undefined ? {} : { logLevel: options.logLevel }),
    terminal: process.stdout.isTTY === true,
  }
}

/** What flags, environment and file say wins over what the enrolment has kept. */
function trustOf(config: AgentConfig, node: NodeCredentials | undefined, given: string | undefined): DaemonTrust {
  const ca = given ?? node?.ca
  const listenerUid = config.listenerUid ?? node?.listenerUid
  return {
    allowInsecure: config.allowInsecure || node?.allowInsecure === true,
    ...(ca === undefined ? {} : { ca }),
    ...(listenerUid === undefined ? {} : { listenerUid }),
  }
}

/** A file without a certificate would be passed over by Node, which then refuses the daemon without giving the reason. */
async function caOf(path: string | undefined): Promise<string | undefined> {
  if (path === undefined) return undefined
  try {
    const pem = await readFile(path, 'utf8')
    new X509Certificate(pem)
    return pem
  } catch (error) {
    throw new AgentFailure('BAD_REQUEST', `${path} cannot be read as certificates in PEM: ${errorText(error)}`)
  }
}

/** The code and the flag for a daemon that was not reached, as the command line reports a panel that it cannot reach. */
function metaOf({ code, cause }: AgentFailure): Record<string, unknown> {
  if (code !== 'TIMEOUT') return {}
  for (let at = cause; at instanceof Error; at = at.cause) {
    if (!(at instanceof UntrustedListener)) continue
    const [uid] = at.uids
    return { code: at.code, hint: uid === undefined ? 'an https URL' : `if that is your panel: --listener-uid ${uid}` }
  }
  return { code: 'UNREACHABLE' }
}
