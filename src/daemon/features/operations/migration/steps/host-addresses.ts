import { lookup } from 'node:dns/promises'
import { StepDelay } from './step.ts'

/** Asks the machine's resolver for all addresses of a name. */
export type Resolve = (host: string) => Promise<readonly { readonly address: string }[]>

const resolved: Resolve = (host) => lookup(host, { all: true })

/** The name exists nowhere, or has no address. */
const UNKNOWN = new Set(['ENOTFOUND', 'ENODATA'])

/**
 * The addresses of a host; none where its name is not known. Whatever else keeps a name server from an answer may be over in a while, and
 * is thrown as a {@link StepDelay}: it says nothing about the name.
 */
export async function addressesOf(host: string, resolve: Resolve = resolved): Promise<string[]> {
  try {
    return (await resolve(host)).map(({ address }) => address)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'no reason'
    if (UNKNOWN.has(code)) return []
    const text = `The name ${host} could not be looked up (${code}): the name servers of this machine do not answer`
    throw new StepDelay('DATABASE_UNREACHABLE', text, { cause: error })
  }
}
