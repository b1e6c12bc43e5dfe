import type { z } from 'zod'
import type { DashboardResources } from '../../../../shared/api/dashboard.ts'
import type { CurrentNodeUsage } from '../../fleet/nodes/figures.ts'

/** The figures of several nodes as one: shares are weighed by the memory and the cores of each. */
export function summedResources(
  nodes: readonly { readonly figures: CurrentNodeUsage; readonly cores: number }[],
): z.input<typeof DashboardResources> {
  const sum = (of: (node: (typeof nodes)[number]) => number): number => nodes.reduce((all, node) => all + of(node), 0)
  const cores = sum((node) => node.cores)
  const busy = sum(({ figures, cores: own }) => (figures.cpuPercent / 100) * own)
  return {
    cpuUtilization: share(busy, cores),
    memoryUtilization: share(
      sum(({ figures }) => figures.memoryUsageMb),
      sum(({ figures }) => figures.memoryTotalMb),
    ),
    networkThroughput: null,
    networkRxBytesPerSecond: known(nodes.map(({ figures }) => figures.networkRxBytesPerSecond)),
    networkTxBytesPerSecond: known(nodes.map(({ figures }) => figures.networkTxBytesPerSecond)),
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
