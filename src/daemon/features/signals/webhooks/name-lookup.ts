import { lookup, Resolver } from 'node:dns/promises'

const TIMEOUT_MS = 3000
/** What a resolver says of a name that may still stand in the machine's own list of hosts. */
const NOT_THERE: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA', 'ECONNREFUSED', 'ESERVFAIL', 'EREFUSED'])

/** The addresses of a host name. */
export type NameLookup = (name: string) => Promise<readonly string[]>

/**
 * Looks names up without the threads that the database works with too: a name server that does not answer holds up nobody.
 * Only a name that it does not know is asked of the machine, which is quick.
 */
export function createNameLookup(): NameLookup {
  const resolver = new Resolver({ timeout: TIMEOUT_MS, tries: 2 })
  return async (name) => {
    const answers = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
    const found = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (found.length > 0) return found
    const failed = answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason as unknown] : []))
    for (const reason of failed) if (!NOT_THERE.has(codeOf(reason))) throw reason
    return (await lookup(name, { all: true })).map(({ address }) => address)
  }
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
