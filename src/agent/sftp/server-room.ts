import type { Clock } from '../../shared/kernel/time.ts'
import { diskRoom } from '../disk/disk-room.ts'
import type { DiskLook } from '../disk/disk-rooms.ts'
import { cancelled } from '../files/list.ts'
import { noSpace } from '../files/place.ts'
import type { GameServer } from '../server/server.ts'

const LOOK_MS = 60_000
const LOOK_AGAIN_MS = 3_000

/** How much each server may still have on its disk, for what comes in over SFTP, beside all else that the agent writes: looked at from time to time. */
export class ServerRoom {
  readonly #clock: Clock
  readonly #looks = new Map<string, { readonly look: DiskLook; readonly atMs: number }>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Takes room for so many bytes more; throws NO_SPACE. */
  async take(server: GameServer, bytes: number, signal: AbortSignal): Promise<void> {
    if (bytes <= 0 || server.spec.limits.diskMb <= 0) return
    const { rooms, disk } = server.context
    const known = this.#looks.get(server.id)
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : this.#clock.monotonicMs() - known.atMs
    if (known !== undefined && ageMs < LOOK_MS && rooms.take(server, known.look, bytes)) return
    if (known !== undefined && ageMs < LOOK_AGAIN_MS) throw noSpace()
    // What was taken away since the last look is in the agent's count still.
    if (known !== undefined) disk.expire(server.id)
    const look = await rooms.look(server)
    this.#looks.set(server.id, { look, atMs: this.#clock.monotonicMs() })
    if (signal.aborted) throw cancelled()
    if (!rooms.take(server, look, bytes)) throw noSpace()
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
