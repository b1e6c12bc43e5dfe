import type { z } from 'zod'
import type { DashboardResources } from '../../../../shared/api/dashboard.ts'
import type { CurrentNodeUsage } from '../../fleet/nodes/usage.ts'

/** The usage of several nodes as one: shares are weighed by the memory and the cores of each. */
export function summedResources(
  nodes: readonly { readonly usage: CurrentNodeUsage; readonly cores: number }[],
): z.input<typeof DashboardResources> {
  const sum = (of: (node: (typeof nodes)[number]) => number): number => nodes.reduce((all, node) => all + of(node), 0)
  const cores = sum((node) => node.cores)
  const busy = sum(({ usage, cores: own }) => (usage.cpuPercent / 100) * own)
  return {
    cpuUtilization: share(busy, cores),
    memoryUtilization: share(
      sum(({ usage }) => usage.memoryUsageMb),
      sum(({ usage }) => usage.memoryTotalMb),
    ),
    networkThroughput: null,
    networkRxBytesPerSecond: known(nodes.map(({ usage }) => usage.networkRxBytesPerSecond)),
    networkTxBytesPerSecond: known(nodes.map(({ usage }) => usage.networkTxBytesPerSecond)),
    nodesReporting: nodes.length,
  }
}

function share(used: number, of: number): number {
  return of <= 0 ? 0 : Math.min(100, Math.max(0, Math.round((used / of) * 1000) / 10))
}

function known(rates: readonly (number | null)[]): number | null {
  const numbers = rates.filter((rate) => rate !== null)
  return numbers.length === 0 ? null : numbers.reduce((all, rate) => all + rate, 0)
}
