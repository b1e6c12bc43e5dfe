import { cancelled } from '../files/list.ts'

type Use = 'read' | 'write' | 'prune'

interface Waiting {
  readonly use: Use
  readonly go: () => void
}

/**
 * Who works on the backups of one server in one store. Any number read, one writes beside them, and who removes what others may be
 * reading is alone. Those who wait are let in as they came.
 */
export class OwnerLocks {
  readonly #held = new Map<string, { readonly uses: Use[]; readonly waiting: Waiting[] }>()

  /** Does the work when it may; throws CANCELLED when `signal` aborts before. */
  async with<T>(name: string, use: Use, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const lock = this.#held.get(name) ?? { uses: [], waiting: [] }
    this.#held.set(name, lock)
    if (lock.waiting.length > 0 || !isFree(lock.uses, use)) {
      await new Promise<void>((resolve, reject) => {
        const leave = (): void => {
          lock.waiting.splice(lock.waiting.indexOf(waiting), 1)
          this.#next(name)
          reject(cancelled())
        }
        const waiting: Waiting = {
          use,
          go: () => {
            signal.removeEventListener('abort', leave)
            resolve()
          },
        }
        if (signal.aborted) return reject(cancelled())
        signal.addEventListener('abort', leave, { once: true })
        lock.waiting.push(waiting)
      })
    } else lock.uses.push(use)
    try {
      return await work()
    } finally {
      lock.uses.splice(lock.uses.indexOf(use), 1)
      this.#next(name)
    }
  }

  #next(name: string): void {
    const lock = this.#held.get(name)
    if (lock === undefined) return
    for (let [first] = lock.waiting; first !== undefined && isFree(lock.uses, first.use); [first] = lock.waiting) {
      lock.waiting.shift()
      lock.uses.push(first.use)
      first.go()
    }
    if (lock.uses.length === 0 && lock.waiting.length === 0) this.#held.delete(name)
  }
}

function isFree(uses: readonly Use[], use: Use): boolean {
  if (use === 'prune') return uses.length === 0
  return !uses.includes('prune') && (use === 'read' || !uses.includes('write'))
}
