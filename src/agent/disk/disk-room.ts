import type { GameServer } from '../server/server.ts'
import type { LimitedServer } from './disk-limits.ts'

const MIB = 1024 * 1024

/** A server as its disk limit is put in force. */
export function limitedServer({ id, place, spec, live }: GameServer): LimitedServer {
  return { id, files: place.files, limitMb: spec.limits.diskMb, isStopped: live === undefined }
}

/**
 * How many bytes more a server may have, for what the agent itself writes: the kernel does not hold root to the quotas of every file
 * system. By the kernel's count where there is one, else by the last one of the agent. Infinite without a limit.
 */
export async function diskRoom(server: GameServer, signal: AbortSignal): Promise<number> {
  const { disk, limits } = server.context
  const limited = limitedServer(server)
  const { id, limitMb } = limited
  if (limitMb <= 0) return Number.POSITIVE_INFINITY
  const kernelMb = await limits.usedMb(id).catch(() => null) // what is counted by the agent counts then
  const running = server.live !== undefined
  const isHeld = kernelMb !== null
  const usedMb =
    kernelMb ?? (disk.isDue(id) ? await disk.measure({ ...limited, running, isHeld }, signal) : disk.usedMb(id))
  return Math.max(0, Math.floor((limitMb - (usedMb ?? 0)) * MIB))
}
