import { z } from 'zod'
import { AgentText, AgentId as Id, MOST_REASON } from '../kernel/agent-text.ts'
import { PowerState } from '../kernel/server-life.ts'
import { AgentErrorCode } from './agent-error.ts'
import { defineRequest } from './define.ts'
import { ServerReport } from './server.ts'
import { ServerSpec } from './server-spec.ts'

/** The stats of a node, every 10 s. */
export const NodeHealth = z.object({
  cpuPercent: z.number(),
  load1: z.number(),
  memoryUsageMb: z.number(),
  memoryTotalMb: z.number(),
  diskUsageMb: z.number(),
  diskTotalMb: z.number(),
  networkRxBytes: z.string(),
  networkTxBytes: z.string(),
  uptimeSeconds: z.number(),
  runningServers: z.int(),
})
export type NodeHealth = z.infer<typeof NodeHealth>

/** How servers are kept apart: by containers, by a user of their own, or not at all. */
export const RuntimeIsolation = z.enum(['container', 'user', 'none', 'unknown'])

/** Whether a server sees folders of its own in place of the machine's. */
export const RuntimeMounts = z.enum(['private', 'shared', 'unknown'])

/** What holds the limits of memory, CPU and processes: the kernel, or (memory alone) the panel's own look every 5 s. */
export const RuntimeLimits = z.enum(['cgroup-v2', 'cgroup-v1', 'watchdog', 'unknown'])

/**
 * A runtime that a node offers, or why it does not (`reason`). Agents of before the enumerations leave them out; a value that
 * this program does not know is `unknown`. `capabilities` says the same in words for people.
 */
export const RuntimeReport = z.object({
  name: z.enum(['process', 'docker']),
  version: AgentText(64),
  ok: z.boolean(),
  reason: AgentText(MOST_REASON).nullable(),
  isolation: RuntimeIsolation.optional().catch('unknown'),
  mounts: RuntimeMounts.optional().catch('unknown'),
  limits: RuntimeLimits.optional().catch('unknown'),
  /** Whether a program may make user namespaces, in which it has capabilities, without its template asking for it. */
  userNamespaces: z.enum(['off', 'allowed', 'unknown']).optional().catch('unknown'),
  /** Whether servers can be kept to some processors, and have a share of disk time. Agents of before leave them out. */
  cpuSets: z.boolean().optional().catch(undefined),
  ioWeights: z.boolean().optional().catch(undefined),
  /** Whether it can give a program a terminal; absent from agents that know none. */
  terminals: z.boolean().optional(),
  /** What holds servers to their disk limits: the kernel by a quota, or the agent's own look at their files. */
  disk: z.enum(['kernel', 'watch', 'unknown']).optional().catch('unknown'),
  /** Why the kernel does not. */
  diskReason: AgentText(MOST_REASON).nullish().catch(null),
  capabilities: z.array(AgentText(64)).max(32),
})
export type RuntimeReport = z.infer<typeof RuntimeReport>

/** A machine by what a copy of its data folder does not take along. `id`: of this installation, `null` where it has none. */
export const NodeMachine = z.object({ id: z.string().max(64).nullable(), bootId: z.string().max(64) })
export type NodeMachine = z.infer<typeof NodeMachine>

/** A server, or what is left of one, that a node has. */
export const OrphanReport = z.object({
  serverId: Id,
  /** `null`: nothing but folders is left. */
  name: AgentText(200).nullable(),
  power: PowerState.exclude(['unknown']),
  pid: z.int().nullable(),
  /** Orders must be newer to be carried out. */
  generation: z.int(),
  hasFiles: z.boolean(),
})
export type OrphanReport = z.infer<typeof OrphanReport>

/** Answer of `orphans.list`; `more`: there are others. */
export const OrphansResult = z.object({ orphans: z.array(OrphanReport).max(500), more: z.boolean() })
export type OrphansResult = z.infer<typeof OrphansResult>

/** Answer of `orphans.describe`; `spec` and `report` are `null` where nothing but folders is there, `orphan` where nothing is. */
export const OrphanResult = z.object({
  spec: ServerSpec.nullable(),
  report: ServerReport.nullable(),
  orphan: OrphanReport.nullable(),
})
export type OrphanResult = z.infer<typeof OrphanResult>

/** Answer of `ports.check`: the taken ones with the reason. */
export const PortsResult = z.object({
  taken: z.array(z.object({ ip: AgentText(64), port: z.int(), code: AgentErrorCode, message: AgentText(500) })),
})
export type PortsResult = z.infer<typeof PortsResult>

/** Whether TCP and UDP of each address can be bound now. */
export const checkPorts = defineRequest({
  op: 'ports.check',
  capability: 'node@1',
  input: { ports: z.array(z.object({ ip: z.string(), port: z.int() })).max(200) },
  result: PortsResult,
})

/** What the node has beside these: servers of the daemon, and those of earlier answers. */
export const listOrphans = defineRequest({
  op: 'orphans.list',
  capability: 'node@1',
  input: { known: z.array(z.string().max(64)).max(20_000) },
  result: OrphansResult,
})

/** All that the node knows of one server. */
export const describeOrphan = defineRequest({
  op: 'orphans.describe',
  capability: 'node@1',
  input: { serverId: z.string().max(64) },
  result: OrphanResult,
})
