import { z } from 'zod'
import { MOST_CPU_SET } from '../kernel/cpu-set.ts'
import { PortProtocol, PortRole } from '../kernel/ports.ts'
import { BootPolicy, RestartPolicy } from '../kernel/server-life.ts'
import { ConfigFile, InsidePath } from './config-files.ts'
import { GameQuery } from './game-query.ts'
import { ServerMount } from './mounts.ts'

/** How an agent may run a server. */
export const RuntimeName = z.enum(['process', 'docker'])
export type RuntimeName = z.infer<typeof RuntimeName>

/** Text for a shell, a script or a console; NUL fits into no argument and no variable of a program. */
export const ShellText = z.string().refine((text) => !text.includes('\0'), 'must not contain the character NUL')

/** The shells that a startup line may be written for. */
export const ShellName = z.enum(['sh', 'bash'])
export type ShellName = z.infer<typeof ShellName>

/** The signals that a stop may use. */
export const StopSignal = z.enum(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGKILL'])
export type StopSignal = z.infer<typeof StopSignal>

/** Keys of a terminal that mean a signal. */
const STOP_KEYS: Readonly<Record<string, StopSignal>> = { '^C': 'SIGINT', '^^C': 'SIGINT', '^\\': 'SIGQUIT' }

/** The signal that a stop command of a template means: `^C`, or `^` and its name; `undefined`: it means none. */
export function signalOf(stopCommand: string): StopSignal | undefined {
  return STOP_KEYS[stopCommand] ?? StopSignal.safeParse(stopCommand.slice(1)).data
}

/** Keys of a terminal that end programs: interrupt, quit, and the end of the input. */
export const TerminalKey = z.enum(['^C', '^\\', '^D'])
export type TerminalKey = z.infer<typeof TerminalKey>

/** The key of a terminal that a stop command of a template names, if it names one. */
export function keyOf(stopCommand: string): TerminalKey | undefined {
  return TerminalKey.safeParse(stopCommand === '^^C' ? '^C' : stopCommand).data
}

/**
 * How a server is stopped: a console command or a signal. After `timeoutMs` the agent sends SIGTERM, after 10 s more
 * SIGKILL to the whole process group. `key`: with a terminal that is typed first, and the signal follows only where the
 * terminal does not send it itself.
 */
export const StopRule = z.discriminatedUnion('type', [
  z.object({ type: z.literal('command'), value: z.string().min(1).max(4096), timeoutMs: z.int().min(0).max(600_000) }),
  z.object({
    type: z.literal('signal'),
    value: StopSignal,
    key: TerminalKey.optional(),
    timeoutMs: z.int().min(0).max(600_000),
  }),
])
export type StopRule = z.infer<typeof StopRule>

/** How a line on stdout or stderr says that the server is up: contained text, or a regular expression of RE2's syntax. */
export const DoneRule = z.object({ kind: z.enum(['contains', 'regex']), value: z.string().min(1).max(500) })
export type DoneRule = z.infer<typeof DoneRule>

/**
 * What a game has open on its primary port once it serves. With any but `none` a server is `running` only when a process of
 * it has that port; absent: nobody knows, so nothing is required.
 */
export const Listens = z.enum(['tcp', 'udp', 'both', 'any', 'none'])
export type Listens = z.infer<typeof Listens>

/** Names that a template variable may not have: the agent sets them, or they would change how programs are loaded. */
export const RESERVED_VARIABLES: ReadonlySet<string> = new Set([
  'PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'PWD', 'TERM', 'LANG', 'TZ', 'HOSTNAME', 'STARTUP', 'MNT_SERVER',
  'SERVER_IP', 'SERVER_PORT', 'SERVER_MEMORY', 'P_SERVER_UUID', 'P_SERVER_LOCATION',
  'PANEL_NODE', 'PANEL_SERVER_ID', 'PANEL_LAUNCH_ID',
  'NODE_OPTIONS', 'LD_PRELOAD', 'LD_LIBRARY_PATH', 'LD_AUDIT', 'BASH_ENV', 'ENV', 'IFS', 'PROMPT_COMMAND', 'PYTHONSTARTUP',
]) // biome-ignore format: one line per family

/**
 * Names that `sh` (dash, or bash in its place) sets itself, refuses to be set, or works otherwise by: a game would not get the
 * value, or not start at all. Templates are not saved with them; those of earlier times stay readable.
 */
export const SHELL_VARIABLES: ReadonlySet<string> = new Set([
  '_', 'OLDPWD', 'PPID', 'OPTIND', 'OPTERR', 'LINENO', 'PS1', 'PS2', 'PS4', 'SHLVL', 'POSIXLY_CORRECT',
  'UID', 'EUID', 'GROUPS', 'RANDOM', 'SRANDOM', 'SECONDS', 'EPOCHSECONDS', 'EPOCHREALTIME',
  'DIRSTACK', 'FUNCNAME', 'HISTCMD', 'COMP_WORDBREAKS', 'SHELLOPTS', 'BASHOPTS', 'BASH', 'BASHPID',
  'BASH_VERSION', 'BASH_VERSINFO', 'BASH_ARGC', 'BASH_ARGV', 'BASH_ARGV0', 'BASH_ALIASES', 'BASH_CMDS', 'BASH_COMMAND',
  'BASH_LINENO', 'BASH_SOURCE', 'PIPESTATUS', 'BASH_SUBSHELL', 'BASH_EXECUTION_STRING',
]) // biome-ignore format: one line per family

/** The name of an environment variable. */
export const VariableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,190}$/, 'must be letters, digits and _')

/** A port, or the variable of a server that holds one. */
const PortOrVariable = z.union([z.int().min(1).max(65_535), VariableName])

/** Columns or rows of a terminal. */
const TerminalSize = z.int().min(2).max(1000)

/**
 * Where a game's console is: what it prints, and where a typed line goes. `stdin`: pipes for all of it. `pty`: a terminal, for
 * programs that keep back their output on a pipe or take no input from one. `file`: pipes, and a log file of the game inside its folder,
 * which is followed as well. `rcon`: pipes for the output, and typed lines go by RCON of Source or Minecraft. `none`: it takes no input.
 */
export const ConsoleKind = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('stdin') }),
  z.object({ kind: z.literal('pty'), columns: TerminalSize.optional(), rows: TerminalSize.optional() }),
  z.object({ kind: z.literal('file'), path: InsidePath }),
  z.object({
    kind: z.literal('rcon'),
    protocol: z.enum(['source', 'minecraft']),
    /** `SERVER_PORT` is the primary one. */
    port: PortOrVariable,
    passwordVariable: VariableName,
  }),
  z.object({ kind: z.literal('none') }),
])
export type ConsoleKind = z.infer<typeof ConsoleKind>

/** The console of servers whose template was stored before there were kinds, and of specifications that name none. */
export const STDIN_CONSOLE: ConsoleKind = { kind: 'stdin' }

/**
 * An agreement that a game asks for before it runs. As long as `file` is there and has no line `eula=true`, the server does not
 * start; whoever agrees has that line written. `text` and `url` are shown beside what the file says.
 */
export const EulaRule = z.object({
  file: InsidePath,
  text: z.string().max(8192).optional(),
  url: z.string().max(500).refine(isWebAddress, 'must be an http or https URL').optional(),
})
export type EulaRule = z.infer<typeof EulaRule>

function isWebAddress(text: string): boolean {
  return URL.canParse(text) && ['http:', 'https:'].includes(new URL(text).protocol)
}

/**
 * All that an agent needs to install and run one server, without the daemon. The agent keeps the last one
 * on disk. `generation` grows with each change or order; an order with an older one is refused.
 */
export const ServerSpec = z.object({
  serverId: z.string(),
  uuid: z.string(),
  name: z.string(),
  generation: z.int().min(0),
  runtime: RuntimeName,
  /** The container image; absent for a server without one. */
  image: z.string().max(500).optional(),
  /** A shell command line; `{{NAME}}` stands for the environment variable NAME: one word, whatever its value is. */
  startup: z.string(),
  /** The shell that runs the line; absent: `sh`. */
  shell: ShellName.optional(),
  stop: StopRule,
  /**
   * Any match makes the server `running`, given that it listens as `listens` says. Without a rule that alone counts, and
   * without either it is `running` after 120 s without an exit.
   */
  done: z.array(DoneRule),
  stripAnsi: z.boolean(),
  listens: Listens.optional(),
  env: z.record(VariableName, z.string()),
  /** Files of the game that are brought up to date before each start. */
  configFiles: z.array(ConfigFile).max(50).optional(),
  /** Variables whose values do not get into the log of the installation. */
  secrets: z.array(VariableName).optional(),
  /** The game may make user namespaces, in which it has capabilities; off unless its template asks for it. */
  allowUserNamespaces: z.boolean().optional(),
  limits: z.object({
    memoryMb: z.int(),
    swapMb: z.int(),
    cpuCores: z.number(),
    diskMb: z.int(),
    pids: z.int(),
    cpuSet: z.string().max(MOST_CPU_SET).optional(),
    ioWeight: z.int().min(10).max(1000).optional(),
  }),
  /** The network of the node in which the server has this address of its own; absent: the node's. */
  network: z.object({ name: z.string().max(63), ip: z.string().max(64) }).optional(),
  /**
   * All are bound for a moment before a start, the primary one over what `listens` names, others over their protocol; one on
   * which somebody listens fails it with PORT_IN_USE, and one that only closed connections hold is waited for. `name`, `role`
   * and `protocol` are those of further ports; an unknown role is none, an unknown protocol both.
   */
  ports: z.array(
    z.object({
      ip: z.string(),
      port: z.int(),
      primary: z.boolean(),
      name: z.string().max(64).optional(),
      role: PortRole.optional().catch(undefined),
      protocol: PortProtocol.optional().catch(undefined),
      /** The variable of `env` that has its number. */
      variable: VariableName.optional(),
    }),
  ),
  /** The game binds its ports on all addresses: they are looked at on all of them before a start. */
  bindsAll: z.boolean().optional(),
  restart: z.object({ policy: RestartPolicy, maxCrashes: z.int() }),
  suspended: z.boolean(),
  /** `entrypoint` is the program that is handed the script's path, such as `sh` or `bash`. */
  install: z
    .object({ script: z.string(), entrypoint: z.string(), timeoutMs: z.int(), image: z.string().max(500).optional() })
    .nullable(),
  /** `input`: absent for pipes; an agent that does not know a kind never gets it (the capability `console-kinds@1`). */
  console: z.object({ logMb: z.int(), input: ConsoleKind.optional() }),
  /** How it is asked who plays; a protocol that this agent does not know is as none. */
  query: GameQuery.optional().catch(undefined),
  /** What it was made from, for a daemon that has lost its row. */
  templateId: z.string().max(64).optional(),
  /** What the node does with it when the machine has started, lower orders first; absent: what was wanted runs again. */
  boot: z.object({ policy: BootPolicy, order: z.int() }).optional(),
  /** A name of the IANA database; absent: the zone of the node. */
  timeZone: z.string().max(64).optional(),
  eula: EulaRule.optional(),
  /** Folders of the node that it is given beside its own, as far as the node allows them. */
  mounts: z.array(ServerMount).max(32).optional(),
})
export type ServerSpec = z.infer<typeof ServerSpec>
