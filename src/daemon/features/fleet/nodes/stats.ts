import type { z } from 'zod'
import type { NodeStats } from '../../../../shared/api/nodes.ts'
import { isoTime } from '../../../../shared/kernel/time.ts'
import type { NodeHealth } from '../../../../shared/protocol/node.ts'
import { effectiveMaximum } from './capacity.ts'
import { type NodeRow, type NodeUsage, roundedCores } from './rows.ts'

/** The last health that a node's agent sent, and when: milliseconds since the epoch. */
export interface HealthReport {
  readonly health: NodeHealth
  readonly atMs: number
}

/** What a node has, has given away and uses. */
export function nodeStats(
  row: NodeRow,
  facts: { usage: NodeUsage; isOnline: boolean; report: HealthReport | undefined },
): z.input<typeof NodeStats> {
  const { usage, report } = facts
  const maximum = effectiveMaximum(row)
  return {
    nodeId: row.id,
    isOnline: facts.isOnline,
    lastSeenAt: row.lastSeenAt,
    resources: {
      maxMemoryMb: row.maxMemoryMb,
      maxCpuCores: row.maxCpuCores,
      memoryOverallocatePercent: row.memoryOverallocatePercent,
      cpuOverallocatePercent: row.cpuOverallocatePercent,
      effectiveMaxMemoryMb: maximum.memoryMb,
      effectiveMaxCpuCores: maximum.cpuCores,
      allocatedMemoryMb: usage.memoryMb,
      allocatedCpuCores: usage.cpuCores,
      availableMemoryMb: left(maximum.memoryMb, usage.memoryMb),
      availableCpuCores: left(maximum.cpuCores, usage.cpuCores),
      memoryUsagePercent: percent(usage.memoryMb, maximum.memoryMb),
      cpuUsagePercent: percent(usage.cpuCores, maximum.cpuCores),
      actualMemoryUsageMb: report?.health.memoryUsageMb ?? null,
      actualMemoryTotalMb: report?.health.memoryTotalMb ?? null,
      actualCpuPercent: report?.health.cpuPercent ?? null,
      actualDiskUsageMb: report?.health.diskUsageMb ?? null,
      actualDiskTotalMb: report?.health.diskTotalMb ?? null,
    },
    servers: { total: usage.total, running: usage.running, stopped: usage.stopped },
    lastMetricsUpdate: report === undefined ? null : isoTime(report.atMs),
  }
}

function left(maximum: number | null, given: number): number | null {
  return maximum === null ? null : Math.max(0, roundedCores(maximum - given))
}

function percent(given: number, maximum: number | null): number | null {
  return maximum === null ? null : Math.round((given / maximum) * 10_000) / 100
}
