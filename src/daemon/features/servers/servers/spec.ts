import { GameQuery } from '../../../../shared/protocol/game-query.ts'
import { mountsOf } from '../../../../shared/protocol/mounts.ts'
import { COMMANDS, type CommandOp, type CommandOrder } from '../../../../shared/protocol/server.ts'
import {
  type ConsoleKind,
  keyOf,
  type RuntimeName,
  type ServerSpec,
  STDIN_CONSOLE,
  type StopRule,
  type StopSignal,
  signalOf,
} from '../../../../shared/protocol/server-spec.ts'
import type { WireCommand } from '../../../gateway/handlers.ts'
import { furtherPortsOf, portsOfTemplate } from './further-ports.ts'
import { imageOfServer } from './images.ts'
import type { LaunchTemplate } from './order-rows.ts'
import type { ServerRow } from './rows.ts'
import { definitionOf, environmentOf, mountsOfServer } from './view.ts'

const PIDS = 512

type Template = ReturnType<typeof definitionOf>

/** What a specification is made of. */
export type SpecRow = Pick<
  ServerRow,
  | 'id' | 'uuid' | 'name' | 'templateId' | 'runtime' | 'memoryMb' | 'cpuCores' | 'diskMb' | 'swapMb' | 'cpuSet' | 'ioWeight'
  | 'image' | 'environment' | 'startupCommand' | 'startupName' | 'mounts' | 'restartPolicy' | 'maxCrashCount' | 'suspendedAt'
  | 'bootPolicy' | 'startOrder' | 'stopTimeoutSeconds' | 'timeZone' | 'templateDefinition' | 'ip' | 'port' | 'networkName'
  | 'furtherPorts'
> /* biome-ignore format: columns */

/** All that the agent needs to run this server, at this generation. Template changes reach a server by its next spec. */
export function buildSpec(
  row: SpecRow,
  { generation, logMb }: { readonly generation: number; readonly logMb: number },
): ServerSpec {
  const template = definitionOf(row)
  const mounts = mountsOf(template.mounts, mountsOfServer(row))
  const defaults = Object.fromEntries(template.variables.map((variable) => [variable.name, variable.default]))
  return {
    serverId: row.id,
    uuid: row.uuid,
    name: row.name,
    generation,
    runtime: row.runtime,
    ...imageOf(row.runtime, imageOfServer(row, template)),
    ...launchOf(row, template),
    stop: stopRule(
      template.stopCommand,
      template.sendSignalTo,
      (row.stopTimeoutSeconds ?? template.stopTimeoutSeconds) * 1000,
    ),
    done: template.startupDetection.done,
    stripAnsi: template.startupDetection.stripAnsi,
    ...(template.listens === null ? {} : { listens: template.listens }),
    env: { ...defaults, ...environmentOf(row), ...portVariables(row, template) },
    ...(template.configFiles.length === 0 ? {} : { configFiles: template.configFiles }),
    secrets: template.variables.flatMap(({ name, secret }) => (secret ? [name] : [])),
    allowUserNamespaces: template.allowUserNamespaces,
    limits: {
      memoryMb: row.memoryMb,
      swapMb: row.swapMb,
      cpuCores: row.cpuCores,
      diskMb: row.diskMb,
      pids: PIDS,
      ...optionalLimits(row),
    },
    ...(row.networkName === null ? {} : { network: { name: row.networkName, ip: row.ip } }),
    ports: [{ ip: row.ip, port: row.port, primary: true }, ...furtherPorts(row, template)],
    ...(template.bindsAll && row.runtime === 'process' ? { bindsAll: true } : {}),
    restart: { policy: row.restartPolicy, maxCrashes: row.maxCrashCount },
    suspended: row.suspendedAt !== null,
    install:
      template.installScript === null
        ? null
        : {
            script: template.installScript,
            entrypoint: template.installEntrypoint,
            timeoutMs: template.installTimeoutSeconds * 1000,
            ...imageOf(row.runtime, template.installImage ?? imageOfServer(row, template)),
          },
    console: { logMb, ...consoleOf(template) },
    ...queryOf(template, row),
    templateId: row.templateId,
    boot: { policy: row.bootPolicy, order: row.startOrder },
    ...(row.timeZone === null ? {} : { timeZone: row.timeZone }),
    ...(template.eula === null ? {} : { eula: template.eula }),
    ...(mounts.length === 0 ? {} : { mounts }),
  }
}

function furtherPorts(row: SpecRow, template: Template): ServerSpec['ports'] {
  const variables = new Map(portsOfTemplate(template).map(({ name, variable }) => [name, variable]))
  return furtherPortsOf(row).map(({ ip, port, name, role, protocol }) => {
    const variable = variables.get(name) ?? undefined
    return { ip, port, primary: false, name, role, protocol, ...(variable === undefined ? {} : { variable }) }
  })
}

/** The numbers of the further ports by their variables, which agents of any version hand on; they win over what was entered. */
function portVariables(row: SpecRow, template: Template): Record<string, string> {
  return Object.fromEntries(
    furtherPorts(row, template).flatMap(({ variable, port }) =>
      variable === undefined ? [] : [[variable, String(port)]],
    ),
  )
}

/** The line that a server is started by, and its shell where that is not `sh`. */
export function launchOf(
  row: Pick<ServerRow, 'startupCommand' | 'startupName'>,
  template: LaunchTemplate,
): Pick<ServerSpec, 'startup' | 'shell'> {
  // Templates that were stored before the field was there do not have it.
  const { shell = 'sh' } = template
  return { startup: startupOf(row, template), ...(shell === 'sh' ? {} : { shell }) }
}

/** A server's own line, the one that it has chosen by name, or the template's. */
function startupOf(
  { startupCommand, startupName }: Pick<ServerRow, 'startupCommand' | 'startupName'>,
  template: LaunchTemplate,
): string {
  if (startupCommand !== null) return startupCommand
  // A name that is chosen stays in the template: edits that would take it away are refused.
  return template.startupCommands.find(({ name }) => name === startupName)?.command ?? template.startup
}

function optionalLimits({ cpuSet, ioWeight }: SpecRow): { cpuSet?: string; ioWeight?: number } {
  return { ...(cpuSet === null ? {} : { cpuSet }), ...(ioWeight === null ? {} : { ioWeight }) }
}

/** Pipes are what every agent knows, so they are not named. */
function consoleOf({ console = STDIN_CONSOLE }: { readonly console?: ConsoleKind }): { input?: ConsoleKind } {
  return console.kind === 'stdin' ? {} : { input: console }
}

/** How the server is asked who plays. A variable that holds no port leaves it unasked. */
function queryOf(template: Template, row: SpecRow): Pick<ServerSpec, 'query'> {
  const { query, variables } = template
  if (query === null) return {}
  if (query.port === null) return { query: { protocol: query.protocol } }
  const given = { ...environmentOf(row), ...portVariables(row, template) }
  const value = given[query.port] ?? variables.find(({ name }) => name === query.port)?.default
  const parsed = GameQuery.safeParse({ protocol: query.protocol, port: Number(value) })
  return parsed.success ? { query: parsed.data } : {}
}

/** Only containers are made from an image. */
function imageOf(runtime: RuntimeName, image: string): { image?: string } {
  return runtime === 'docker' && image !== '' ? { image } : {}
}

/** A command as its row keeps it: what the agent needs of it without the specification, and who has deleted a server. */
export type StoredOrder =
  | Exclude<CommandOrder, { op: 'delete' }>
  | { readonly op: 'delete'; readonly args: { readonly keepFiles: boolean; readonly deletedBy: string | null } }

/** So many orders that were read are kept: most have no arguments, or the same few. */
const MOST_READ = 100
const readBefore = new Map<string, CommandOrder>()

/** Reads the order of a row; `undefined` for one that this version of the daemon does not know. It belongs to all who ask, and must not be changed. */
export function readOrder({ op, args }: { readonly op: string; readonly args: string }): CommandOrder | undefined {
  const key = `${op} ${args}`
  const known = readBefore.get(key)
  if (known !== undefined) return known
  const order = parseOrder(op, args)
  if (readBefore.size >= MOST_READ) readBefore.clear()
  if (order !== undefined) readBefore.set(key, order)
  return order
}

function parseOrder(op: string, args: string): CommandOrder | undefined {
  const definition = COMMANDS.find((command) => command.op === op)
  const parsed = definition?.args.safeParse(JSON.parse(args)) // written by addCommand
  return parsed?.success === true ? ({ op, args: parsed.data } as CommandOrder) : undefined // parsed by the definition of this op
}

/** A specification, and the same as JSON. */
export interface WireSpec {
  readonly spec: ServerSpec
  readonly json: string
}

/** The command as the agent gets it; `specOf` makes the newest specification, and is called for those commands only that need it. */
export function commandOf({ op, args }: CommandOrder, specOf: (() => WireSpec) | undefined): WireCommand {
  const plain = { op, ...args }
  const text = JSON.stringify(plain)
  // What is made here is the wire form of this op's definition.
  if (!COMMANDS.some((command) => command.op === op && command.withSpec))
    return { command: plain as CommandOp, json: text }
  if (specOf === undefined) throw new Error(`the order ${op} needs the specification of its server`)
  const { spec, json } = specOf()
  return { command: { spec, ...plain } as CommandOp, json: `${text.slice(0, -1)},"spec":${json}}` }
}

/** `^C` and its like name signals; any other text is a console command; none: the template's signal. */
function stopRule(command: string, signal: StopSignal, timeoutMs: number): StopRule {
  if (command === '') return { type: 'signal', value: signal, timeoutMs }
  if (!command.startsWith('^')) return { type: 'command', value: command, timeoutMs }
  // Older templates may hold what is refused today.
  const key = keyOf(command)
  return { type: 'signal', value: signalOf(command) ?? 'SIGTERM', timeoutMs, ...(key === undefined ? {} : { key }) }
}
