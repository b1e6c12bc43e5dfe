import { X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import { PanelError } from '../../shared/kernel/errors.ts'

/** What decides which names the panel answers by. */
export interface HostRules {
  /** Names that were configured: `http.allowedHosts`, the public URL's, the one that is listened on. */
  readonly names: readonly string[]
  /** The certificate that is served; the names in it count. */
  readonly certificate: string | undefined
}

/**
 * Refuses requests that name a host which is not this panel. A web page can point its own name at this machine and so read
 * and write here as if it were one of ours (DNS rebinding); the name is the one thing that it cannot change. Addresses are
 * always taken: no resolver stands behind them. So is `localhost`, and a request without a host, which no browser sends.
 */
export function createHostCheck({ names, certificate }: HostRules): (host: string) => void {
  const allowed = new Set(['localhost', ...names.map(canonical)])
  const served = certificate === undefined ? undefined : new X509Certificate(certificate)
  const isOurs = (name: string): boolean =>
    name === '' ||
    allowed.has(name) ||
    name.endsWith('.localhost') ||
    isIP(name) !== 0 ||
    served?.checkHost(name) !== undefined
  // Nearly all requests name the same host.
  let lastAllowed: string | undefined
  return (host) => {
    if (host === lastAllowed) return
    const name = hostName(host)
    if (isOurs(name)) {
      lastAllowed = host
      return
    }
    throw new PanelError(
      'HOST_NOT_ALLOWED',
      `This panel does not answer by the name ${JSON.stringify(name.slice(0, 255))}; if it is yours, add it to ` +
        'http.allowedHosts (PANEL_HTTP__ALLOWED_HOSTS) or set http.publicUrl, and start the daemon again',
    )
  }
}

/** The name in a Host header, without port, brackets, final dot and case. */
function hostName(host: string): string {
  const bracketed = /^\[([^\]]*)\](?::\d*)?$/.exec(host)?.[1]
  return canonical(bracketed ?? host.replace(/:\d*$/, ''))
}

function canonical(name: string): string {
  return name.trim().toLowerCase().replace(/\.$/, '')
}
