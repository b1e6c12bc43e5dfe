import type { Clock } from '../../shared/kernel/time.ts'
import { diskRoom } from '../disk/disk-room.ts'
import { noSpace } from '../files/place.ts'
import type { GameServer } from '../server/server.ts'

const LOOK_MS = 60_000
const LOOK_AGAIN_MS = 3_000

/** How much each server may still have on its disk, for what comes in over SFTP: counted down between two looks. */
export class ServerRoom {
  readonly #clock: Clock
  readonly #left = new Map<string, { bytes: number; readonly atMs: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes room for so many bytes more; throws NO_SPACE. */
  async take(server: GameServer, bytes: number, signal: AbortSignal): Promise<void> {
    if (bytes <= 0 || server.spec.limits.diskMb <= 0) return
    const known = this.#left.get(server.id)
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() - known.atMs
    if (known !== undefined && ageMs < LOOK_MS && known.bytes >= bytes) {
      known.bytes -= bytes
      return
    }
    if (known !== undefined && ageMs < LOOK_AGAIN_MS) throw noSpace()
    // What was written since the last look is not in the agent's count.
    if (known !== undefined) server.context.disk.expire(server.id)
    const left = { bytes: await diskRoom(server, signal), atMs: this.#clock.monotonicMs() }
    this.#left.set(server.id, left)
    if (left.bytes < bytes) throw noSpace()
    left.bytes -= bytes
  }

  /** How many bytes a server may still have; infinite without a limit. */
  async look(server: GameServer, signal: AbortSignal): Promise<number> {
    return await diskRoom(server, signal)
  }

  /** Something was written, or was taken away: the next look counts anew. */
  changed(server: GameServer): void {
    server.context.disk.expire(server.id)
  }
}
