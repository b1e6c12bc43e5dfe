import { createRequire } from 'node:module'
import { CliFailure } from '../failure.ts'

const SERVICE = 'panel'

interface Entry {
  getPassword(): string | null
  setPassword(password: string): void
  deletePassword(): boolean
}

/** The token of a context in the desktop's keyring; `undefined` when there is none. */
export function readKeyring(context: string): string | undefined {
  return attempt(() => entry(context).getPassword() ?? undefined)
}

/** Keeps a token in the desktop's keyring. */
export function writeKeyring(context: string, token: string): void {
  attempt(() => entry(context).setPassword(token))
}

/** Forgets the token of a context. */
export function removeKeyring(context: string): void {
  attempt(() => entry(context).deletePassword())
}

/** The package is optional: a machine without a desktop has no use for it. */
function entry(context: string): Entry {
  const keyring = createRequire(import.meta.url)('@napi-rs/keyring') as { Entry: new (s: string, a: string) => Entry } // its published interface
  return new keyring.Entry(SERVICE, context)
}

function attempt<T>(work: () => T): T {
  try {
    return work()
  } catch (error) {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error)
    throw new CliFailure('HOST_PRECONDITION', `the keyring of this desktop cannot be used: ${reason}`, {
      hint: 'sign in again with --store file',
      cause: error,
    })
  }
}
