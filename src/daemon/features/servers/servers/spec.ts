import type { NewTemplate } from '../../../../shared/api/templates.ts'
import { GameQuery } from '../../../../shared/protocol/game-query.ts'
import { COMMANDS, type CommandOp, type CommandOrder } from '../../../../shared/protocol/server.ts'
import {
  type RuntimeName,
  type ServerSpec,
  type StopRule,
  type StopSignal,
  signalOf,
} from '../../../../shared/protocol/server-spec.ts'
import type { ServerRow } from './rows.ts'
import { definitionOf, environmentOf } from './view.ts'

const PIDS = 512

/** All that the agent needs to run this server, at this generation. Template changes reach a server by its next spec. */
export function buildSpec(row: ServerRow, generation: number, logMb: number): ServerSpec {
  const template = definitionOf(row)
  const defaults = Object.fromEntries(template.variables.map((variable) => [variable.name, variable.default]))
  return {
    serverId: row.id,
    uuid: row.uuid,
    name: row.name,
    generation,
    runtime: row.runtime,
    ...imageOf(row.runtime, template.image),
    startup: row.startupCommand ?? template.startup,
    stop: stopRule(template.stopCommand, template.sendSignalTo, template.stopTimeoutSeconds * 1000),
    done: template.startupDetection.done,
    stripAnsi: template.startupDetection.stripAnsi,
    // Templates that were stored before the field was there do not have it.
    ...(template.listens == null ? {} : { listens: template.listens }),
    env: { ...defaults, ...environmentOf(row) },
    ...(template.configFiles.length === 0 ? {} : { configFiles: template.configFiles }),
    secrets: template.variables.flatMap(({ name, secret }) => (secret ? [name] : [])),
    allowUserNamespaces: template.allowUserNamespaces,
    limits: { memoryMb: row.memoryMb, swapMb: row.swapMb, cpuCores: row.cpuCores, diskMb: row.diskMb, pids: PIDS },
    ports: [{ ip: row.ip, port: row.port, primary: true }],
    restart: { policy: row.restartPolicy, maxCrashes: row.maxCrashCount },
    suspended: row.suspendedAt !== null,
    install:
      template.installScript === null
        ? null
        : {
            script: template.installScript,
            entrypoint: template.installEntrypoint,
            timeoutMs: template.installTimeoutSeconds * 1000,
            ...imageOf(row.runtime, template.installImage ?? template.image),
          },
    console: { logMb },
    ...queryOf(template, row),
    templateId: row.templateId,
  }
}

/** How the server is asked who plays. A variable that holds no port leaves it unasked. */
function queryOf(
  { query, variables }: Pick<NewTemplate, 'query' | 'variables'>,
  row: ServerRow,
): Pick<ServerSpec, 'query'> {
  // Templates that were stored before the field was there do not have it.
  if (query == null) return {}
  if (query.port === null) return { query: { protocol: query.protocol } }
  const value = environmentOf(row)[query.port] ?? variables.find(({ name }) => name === query.port)?.default
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

/** Reads the order of a row; `undefined` for one that this version of the daemon does not know. */
export function readOrder({ op, args }: { readonly op: string; readonly args: string }): CommandOrder | undefined {
  const definition = COMMANDS.find((command) => command.op === op)
  const parsed = definition?.args.safeParse(JSON.parse(args)) // written by addCommand
  return parsed?.success === true ? ({ op, args: parsed.data } as CommandOrder) : undefined // parsed by the definition of this op
}

/** The command as the agent gets it; those that need the specification get the newest. */
export function commandOf({ op, args }: CommandOrder, spec: ServerSpec): CommandOp {
  const withSpec = COMMANDS.some((command) => command.op === op && command.withSpec)
  return { op, ...args, ...(withSpec ? { spec } : {}) } as CommandOp // the wire form of this op's definition
}

/** `^C` and its like name signals; any other text is a console command; none: the template's signal. */
function stopRule(command: string, signal: StopSignal, timeoutMs: number): StopRule {
  if (command === '') return { type: 'signal', value: signal, timeoutMs }
  if (!command.startsWith('^')) return { type: 'command', value: command, timeoutMs }
  // Older templates may hold what is refused today.
  return { type: 'signal', value: signalOf(command) ?? 'SIGTERM', timeoutMs }
}
