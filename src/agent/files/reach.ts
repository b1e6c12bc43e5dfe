import { lookup as lookupName } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { isReachable } from '../../shared/platform/public-address.ts'
import { AgentFailure } from '../failure.ts'

/** Refuses a URL with an address in it that may not be asked: an address itself is not looked up. Throws PATH_INVALID. */
export function refuseUnreachable(url: URL, allowedRanges: readonly string[]): void {
  const host = url.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !isReachable(host, allowedRanges)) throw unreachable(host)
}

/** Looks a name up once and answers those of its addresses that may be asked, so that what was checked is what is connected to. */
export function reachableLookup(allowedRanges: readonly string[]): LookupFunction {
  return (name, { all }, done) => {
    lookupName(name, { all: true }).then(
      (found) => {
        const addresses = found.filter(({ address }) => isReachable(address, allowedRanges))
        const [first] = addresses
        if (first === undefined) done(unreachable(name), '', 0)
        else if (all === true) done(null, addresses)
        else done(null, first.address, first.family)
      },
      (error: Error) => done(error, '', 0),
    )
  }
}

function unreachable(host: string): AgentFailure {
  const message = `leads to ${host.slice(0, 200)}, which is a private or reserved address; pull.allowedRanges of agent.yaml can allow it`
  return new AgentFailure('PATH_INVALID', message, { field: 'url' })
}
