import { Engine } from '../engine/engine.ts'
import { cgroupUsage, resizeCgroup } from '../holder/cgroup.ts'
import type { HeldRun } from '../holder/holder-files.ts'
import { enforcedMemoryMb } from '../holder/memory-limit.ts'
import { errorText } from '../logger.ts'
import { limitsOf } from './docker/container-plan.ts'
import type { RunPlan } from './runtime.ts'

const MIB = 1024 * 1024

/**
 * Puts other limits in force for a living run: in its control groups, or by the engine of its container. A memory limit below what the run
 * uses now is not set, because the kernel would end it for that. Answers why it cannot be, or `null`.
 */
export async function resizeRun(run: HeldRun, limits: RunPlan['limits']): Promise<string | null> {
  const { isolation, container } = run
  const usedMb = isolation.cgroup === null ? null : bytesToMb(cgroupUsage(isolation.cgroup).memoryBytes)
  const mostMb = enforcedMemoryMb(limits.memoryMb)
  if (usedMb !== null && mostMb > 0 && usedMb > mostMb) {
    return `The server uses ${usedMb} MiB of memory now, more than it is to have (${limits.memoryMb} MiB)`
  }
  try {
    if (container !== undefined) {
      const path = `/containers/${encodeURIComponent(container.name)}/update`
      await new Engine(container.socket).json({ method: 'POST', path, body: limitsOf({ limits }, false) })
      return null
    }
    if (isolation.cgroup === null) return 'This node cannot change the limits of what runs (it has no control groups)'
    if (isolation.uid !== null && limits.pids > run.limits.pids && run.limits.pids > 0)
      return 'More processes than at its start cannot be given to what runs'
    resizeCgroup(isolation.cgroup, limits)
    return null
  } catch (error) {
    return `The machine has refused the new limits: ${errorText(error)}`.slice(0, 400)
  }
}

function bytesToMb(bytes: number | null): number | null {
  return bytes === null ? null : Math.ceil(bytes / MIB)
}
