import { type SourceAccess, SourceHttp, type SourceHttpDeps } from './http.ts'
import { PelicanSource } from './pelican.ts'
import { PterodactylSource } from './pterodactyl.ts'
import { type Source, SourceFailure } from './source.ts'

/**
 * Opens the panel at an address, whichever flavour it is: keys say nothing of it, but only Pterodactyl has nests. Throws a
 * {@link SourceFailure} where there is none, or it refuses the keys.
 */
export async function openSource(access: SourceAccess, deps: SourceHttpDeps, signal: AbortSignal): Promise<Source> {
  const http = new SourceHttp(access, deps)
  try {
    if (await hasRoute(http, '/nests', signal)) return new PterodactylSource(http)
    if (await hasRoute(http, '/eggs', signal)) return new PelicanSource(http)
    const text = `${http.url.host} answers, but is neither Pterodactyl nor Pelican; check the address`
    throw new SourceFailure('not-a-source', text, { status: 404 })
  } catch (error) {
    await http.close()
    throw error
  }
}

/** A route that may not be used is there all the same. */
async function hasRoute(http: SourceHttp, path: string, signal: AbortSignal): Promise<boolean> {
  try {
    await http.request({ api: 'application', method: 'GET', path, query: { per_page: '1' }, attempts: 3 }, signal)
    return true
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error
    if (error.problem === 'missing') return false
    // It has refused in the words of such a panel: one egg that cannot be shown costs the list.
    if (error.problem === 'denied' || (error.problem === 'broken' && error.sourceCode !== null)) return true
    throw error
  }
}
