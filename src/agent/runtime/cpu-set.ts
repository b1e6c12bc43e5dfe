import { readFile } from 'node:fs/promises'
import { parseCpuSet } from '../../shared/kernel/cpu-set.ts'
import { AgentFailure } from '../failure.ts'

/** Throws BAD_REQUEST for a set with processors that this machine does not have. */
export async function refuseCpuSet(cpuSet: string | undefined): Promise<void> {
  if (cpuSet === undefined) return
  const wanted = parseCpuSet(cpuSet)
  const text = (await readFile('/sys/devices/system/cpu/online', 'latin1').catch(() => '')).trim()
  const there = parseCpuSet(text)
  // A machine that does not say what it has decides by itself when the run is started.
  const missing = wanted === undefined || there === undefined ? undefined : wanted.filter((cpu) => !there.includes(cpu))
  if (wanted !== undefined && (missing === undefined || missing.length === 0)) return
  const which = missing === undefined ? cpuSet : missing.slice(0, 10).join(', ')
  throw new AgentFailure(
    'BAD_REQUEST',
    `This node has no processor ${which}; it has ${text}. Choose others for the server`,
  )
}
