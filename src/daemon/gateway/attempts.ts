import type { Clock } from '../../shared/kernel/time.ts'
import { countedAddress } from '../../shared/platform/counted-address.ts'

const TIERS_SECONDS = [1, 5, 15, 60, 300] as const
/** Failures of one address that cost nothing: several agents may share it, and one of them may be set up wrongly. */
const ADDRESS_ALLOWANCE = 20
const FORGET_MS = 15 * 60_000
const MOST_ENTRIES = 10_000

interface Entry {
  failures: number
  blockedUntil: number
  lastMs: number
}

/**
 * Slows down guessing at node keys: each failure of an address with a node id, and each beyond twenty of an address, blocks
 * the next wrong one for longer (1, 5, 15, 60, 300 s). A right key is never asked to wait: the caller checks it first.
 * Keeps at most ten thousand entries of each kind, the newest.
 */
export class AttemptLimiter {
  readonly #clock: Clock
  readonly #pairs = new Map<string, Entry>()
  readonly #addresses = new Map<string, Entry>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Seconds until this may be tried again; 0: now. */
  waitSeconds(address: string, nodeId: string): number {
    const now = this.#clock.monotonicMs()
    const until = Math.max(
      this.#pairs.get(pairKey(address, nodeId))?.blockedUntil ?? 0,
      this.#addresses.get(countedAddress(address))?.blockedUntil ?? 0,
    )
    return until > now ? Math.ceil((until - now) / 1000) : 0
  }

  failed(address: string, nodeId: string): void {
    this.#count(this.#pairs, pairKey(address, nodeId), 0)
    this.#count(this.#addresses, countedAddress(address), ADDRESS_ALLOWANCE)
  }

  succeeded(address: string, nodeId: string): void {
    this.#pairs.delete(pairKey(address, nodeId))
  }

  #count(entries: Map<string, Entry>, key: string, allowance: number): void {
    const now = this.#clock.monotonicMs()
    const known = entries.get(key)
    const failures = known === undefined || now - known.lastMs > FORGET_MS ? 1 : known.failures + 1
    const over = failures - allowance
    const seconds = over > 0 ? (TIERS_SECONDS[Math.min(over, TIERS_SECONDS.length) - 1] ?? 0) : 0
    entries.delete(key) // so that the map is ordered by the last failure
    entries.set(key, { failures, blockedUntil: now + seconds * 1000, lastMs: now })
    const oldest = entries.keys().next()
    if (entries.size > MOST_ENTRIES && oldest.done !== true) entries.delete(oldest.value)
  }
}

function pairKey(address: string, nodeId: string): string {
  return `${countedAddress(address)} ${nodeId.slice(0, 64)}`
}
