import { PanelError } from '../../shared/kernel/errors.ts'
import type { Settings } from '../core/settings.ts'

/** When to try again where no place is left. */
export const RETRY_AFTER_SECONDS = 30

/** Counts open streams by server and by user. */
export class StreamLimits {
  readonly #settings: Settings
  readonly #counts = new Map<string, number>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** The places that a stream takes, each with the most that there may be of it now. */
  placesOf(stream: string, userId: string, serverId: string | undefined): readonly (readonly [string, number])[] {
    const ofUser = [`user ${userId}`, this.#settings.get('limits.streamsPerUser')] as const
    if (serverId === undefined) return [ofUser]
    return [ofUser, [`${stream} ${serverId}`, this.#settings.get('limits.streamsPerServer')]]
  }

  /** Takes a place; the returned function gives it back. Throws STREAM_LIMIT_REACHED when there is none. */
  take(stream: string, userId: string, serverId: string | undefined): () => void {
    const keys = this.placesOf(stream, userId, serverId)
    for (const [key, limit] of keys) {
      if ((this.#counts.get(key) ?? 0) >= limit) {
        throw new PanelError('STREAM_LIMIT_REACHED', 'Too many streams are open; close one and try again', {
          meta: { limit, retryAfterSeconds: RETRY_AFTER_SECONDS },
        })
      }
    }
    for (const [key] of keys) this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
    let given = false
    return () => {
      if (given) return
      given = true
      for (const [key] of keys) {
        const left = (this.#counts.get(key) ?? 1) - 1
        if (left > 0) this.#counts.set(key, left)
        else this.#counts.delete(key)
      }
    }
  }
}
