import { availableParallelism } from 'node:os'
import { makeRoom } from '../../../../shared/platform/collect.ts'
import { newSecret } from '../../../core/secrets.ts'
import { tooMany } from './turns.ts'

/** Argon2id: 19 MiB, two passes, one lane. Argon2id is the library's default algorithm. */
const COST = { memoryCost: 19_456, timeCost: 2, parallelism: 1 } as const
/** Each takes 19 MiB and a processor, which games on the same machine then do without. */
const AT_ONCE = availableParallelism() < 4 ? 1 : 2
const WAITING = 256

/** Hashes and checks passwords, two at a time, or one where there are fewer than four processors; beyond a bounded queue it fails with RATE_LIMITED. */
export interface Passwords {
  hash(password: string): Promise<string>
  /** Whether the password is the one behind the hash. Without a hash the answer is no, after the same work. */
  verify(password: string, passwordHash: string | null): Promise<boolean>
}

/** Passwords over Argon2id. */
export function createPasswords(): Passwords {
  const waiting: (() => void)[] = []
  let working = 0
  let loading: Promise<Hashing> | undefined
  // Loaded and made at the first sign-in: most starts do without.
  const hashing = (): Promise<Hashing> => {
    loading ??= openHashing()
    return loading
  }

  const gate = async <T>(work: () => Promise<T>): Promise<T> => {
    if (working < AT_ONCE) working += 1
    else if (waiting.length >= WAITING) throw tooMany()
    else await new Promise<void>((resolve) => waiting.push(resolve)) // the place is handed over
    try {
      await makeRoom()
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) working -= 1
      else next()
    }
  }

  return {
    hash: (password) => gate(async () => (await hashing()).hash(password)),
    verify: (password, passwordHash) =>
      gate(async () => {
        const { nobody, verify } = await hashing()
        const matches = await verify(passwordHash ?? nobody, password)
        return matches && passwordHash !== null
      }),
  }
}

/** The library, and the hash of a password that nobody knows. */
interface Hashing {
  readonly nobody: string
  hash(password: string): Promise<string>
  verify(passwordHash: string, password: string): Promise<boolean>
}

async function openHashing(): Promise<Hashing> {
  const { hash, verify } = await import('@node-rs/argon2')
  return { nobody: await hash(newSecret(), COST), hash: (password) => hash(password, COST), verify }
}
