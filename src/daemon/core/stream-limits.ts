import { PanelError } from '../../shared/errors.ts'
import type { Settings } from './settings.ts'

/** Counts open streams by server and by user (spec.md §8, decisions #42). */
export class StreamLimits {
  readonly #settings: Settings
  readonly #counts = new Map<string, number>()

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** Takes a place; the returned function gives it back. Throws STREAM_LIMIT_REACHED when there is none. */
  take(stream: string, userId: string, serverId: string | undefined): () => void {
    const keys: [string, number][] = [[`user ${userId}`, this.#settings.get('limits.streamsPerUser')]]
    if (serverId !== undefined) {
      keys.push([`${stream} ${serverId}`, this.#settings.get('limits.streamsPerServer')])
    }
    for (const [key, limit] of keys) {
      if ((this.#counts.get(key) ?? 0) >= limit) {
        throw new PanelError('STREAM_LIMIT_REACHED', 'Too many streams are open; close one and try again', {
          meta: { limit, retryAfterSeconds: 30 },
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
