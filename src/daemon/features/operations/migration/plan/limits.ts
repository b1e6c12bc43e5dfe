import type { MigrationOptions } from '../../../../../shared/api/migration.ts'
import { parseCpuSet } from '../../../../../shared/kernel/cpu-set.ts'
import type { SourceLimits } from '../source/model.ts'

/** What a server is given here. */
export interface TargetLimits {
  readonly memoryMb: number
  readonly diskMb: number
  /** Two decimals. */
  readonly cpuCores: number
  /** The most there is where the source sets no limit. */
  readonly swapMb: number
  /** `null`: any processor. */
  readonly cpuSet: string | null
  /** `null`: that of the node. */
  readonly ioWeight: number | null
}

/** The most swap that a server may be given. */
const MOST_SWAP_MB = 1_048_576

/** Limits that the source leaves open and for which nobody has said what they are to be. */
export type OpenLimit = 'memoryMb' | 'diskMb' | 'cpuCores'

/**
 * The limits of a server in the units of this panel. A limit that the source leaves open takes its value from the options; CPU may
 * also be all of the node. What cannot be carried over is named in `notes`.
 */
export function targetLimits(
  limits: SourceLimits,
  { unlimited, node }: { unlimited: MigrationOptions['unlimited']; node: { readonly maxCpuCores: number } },
): { readonly limits: TargetLimits; readonly open: readonly OpenLimit[]; readonly notes: readonly string[] } {
  const open: OpenLimit[] = []
  const notes: string[] = []
  const orElse = (name: 'memoryMb' | 'diskMb', value: number): number => {
    if (value > 0) return Math.ceil(value)
    const chosen = unlimited[name]
    if (chosen === undefined) open.push(name)
    return chosen ?? 0
  }
  const cpuSet = pinned(limits.threads, notes)
  const cpuCores =
    limits.cpuPercent > 0
      ? Math.max(0.1, Math.round(limits.cpuPercent) / 100)
      : (unlimited.cpuCores ?? node.maxCpuCores)
  if (limits.isOomKillerOff)
    notes.push('the source keeps the kernel from ending it when memory runs out; here it is ended')
  return {
    limits: {
      memoryMb: orElse('memoryMb', limits.memoryMb),
      diskMb: orElse('diskMb', limits.diskMb),
      cpuCores,
      swapMb: limits.swapMb < 0 ? MOST_SWAP_MB : Math.ceil(limits.swapMb),
      cpuSet,
      ioWeight: limits.ioWeight >= 10 && limits.ioWeight <= 1000 && limits.ioWeight !== 500 ? limits.ioWeight : null,
    },
    open,
    notes,
  }
}

function pinned(threads: string | null, notes: string[]): string | null {
  const text = threads?.replaceAll(' ', '') ?? ''
  if (text === '') return null
  if (parseCpuSet(text) !== undefined) return text
  notes.push('the processors that it is pinned to cannot be read')
  return null
}
