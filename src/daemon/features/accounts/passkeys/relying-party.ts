import { isIP } from 'node:net'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { isLoopbackHost } from '../../../../shared/kernel/setting-values.ts'

/** Who asks for passkeys: the name that they are bound to, and the only page that may use them. */
export interface RelyingParty {
  readonly id: string
  readonly origin: string
}

/**
 * The relying party behind the address of this panel. Fails with FEATURE_DISABLED where there can be none: browsers make
 * passkeys for names, not for addresses, and only for https pages and this machine. A panel on a loopback address is
 * `localhost`, which leads there too.
 */
export function relyingParty(publicUrl: string): RelyingParty {
  const url = new URL(publicUrl)
  const loopback = isLoopbackHost(url.hostname.replace(/^\[|\]$/g, ''))
  if (loopback) url.hostname = 'localhost'
  const { hostname, origin, protocol } = url
  const local = loopback || hostname.endsWith('.localhost')
  const named = isIP(hostname.replace(/^\[|\]$/g, '')) === 0
  if (named && (protocol === 'https:' || local)) return { id: hostname, origin }
  throw new PanelError(
    'FEATURE_DISABLED',
    'Passkeys need an https address with a name: set http.publicUrl (PANEL_HTTP__PUBLIC_URL), such as https://panel.example.org',
  )
}
