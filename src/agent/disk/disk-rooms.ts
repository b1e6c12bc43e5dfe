import { AgentFailure } from '../failure.ts'
import { noSpace } from '../files/place.ts'
import type { GameServer } from '../server/server.ts'
import { diskRoom } from './disk-room.ts'

const MIB = 1024 * 1024

/** What one piece of work of the agent may still write for a server. */
export interface SharedRoom {
  /** How many bytes more, as far as is known at the beginning. */
  readonly roomBytes: number
  /** Counts bytes that are about to be written; throws NO_SPACE when they are too many with those of all other work. */
  readonly spend: (bytes: number) => void
}

interface Written {
  /** All that the agent has written for a server since it was started, without what it has taken away again. */
  bytes: number
  /** What is known to come and was not written yet. */
  coming: number
  works: number
  /** What was written when somebody looked last. */
  seen: number
  looking: Promise<DiskLook> | undefined
}

/** What was left of a server's disk when somebody looked. */
export interface DiskLook {
  readonly roomBytes: number
  /** What was written before: it is counted in that. */
  readonly before: number
}

/**
 * Shares what servers may still have on their disks among all that the agent writes for them at the same time: each by itself would
 * take what is left for its own. The kernel does so where it holds a server to its limit; it does not hold root everywhere.
 */
export class DiskRooms {
  readonly #written = new WeakMap<GameServer, Written>()
  readonly #ending: AbortSignal

  constructor(ending: AbortSignal) {
    this.#ending = ending
  }

  /**
   * Does work that writes. `comingBytes` have their room before they come, so that of two that do not fit together one is refused and not
   * both. `freedBytes` is what it replaces: it may have so much more, and gives it back at its end. What has failed has left nothing, unless
   * it `keeps` what has come. Throws NO_SPACE.
   */
  async with<T>(
    server: GameServer,
    {
      comingBytes = 0,
      freedBytes = 0,
      keeps = false,
    }: { readonly comingBytes?: number; readonly freedBytes?: number; readonly keeps?: boolean },
    work: (room: SharedRoom) => Promise<T>,
  ): Promise<T> {
    const written = this.#of(server)
    written.works++
    let own = 0
    let back = 0
    let promised = 0
    try {
      const { roomBytes, before } = await this.look(server)
      const look = { roomBytes: roomBytes + freedBytes, before }
      const leftBytes = Math.max(0, look.roomBytes - (written.bytes - before) - written.coming)
      if (comingBytes > leftBytes) throw tooLarge(leftBytes)
      promised = comingBytes
      written.coming += promised
      const spend = (bytes: number): void => {
        const ofPromise = Math.min(bytes, promised)
        promised -= ofPromise
        written.coming -= ofPromise
        written.bytes += ofPromise
        own += ofPromise
        if (!this.take(server, look, bytes - ofPromise)) throw noSpace()
        own += bytes - ofPromise
      }
      const done = await work({ roomBytes: leftBytes, spend })
      back = Math.min(own, freedBytes)
      return done
    } catch (error) {
      back = keeps ? 0 : own
      throw error
    } finally {
      written.bytes -= back
      written.coming -= promised
      written.works--
    }
  }

  /** Looks how much is left now. Those who look together get the same answer. */
  async look(server: GameServer): Promise<DiskLook> {
    const written = this.#of(server)
    if (written.looking !== undefined) return await written.looking
    // The agent's count does not have what was written since, nor what is being written.
    if (written.works > 1 || written.bytes !== written.seen) server.context.disk.expire(server.id)
    const before = written.bytes
    written.seen = before
    const looking = diskRoom(server, this.#ending).then((roomBytes) => ({ roomBytes, before }))
    written.looking = looking
    try {
      return await looking
    } finally {
      written.looking = undefined
    }
  }

  /** Counts bytes that are about to be written; false when they are more than was left, with all that was written since or is to come. */
  take(server: GameServer, { roomBytes, before }: DiskLook, bytes: number): boolean {
    const written = this.#of(server)
    if (bytes > 0 && written.bytes - before + written.coming + bytes > roomBytes) return false
    written.bytes += bytes
    return true
  }

  #of(server: GameServer): Written {
    const known = this.#written.get(server)
    if (known !== undefined) return known
    const fresh: Written = { bytes: 0, coming: 0, works: 0, seen: 0, looking: undefined }
    this.#written.set(server, fresh)
    return fresh
  }
}

function tooLarge(leftBytes: number): AgentFailure {
  return new AgentFailure('NO_SPACE', `The disk limit of the server leaves ${Math.floor(leftBytes / MIB)} MiB`)
}
