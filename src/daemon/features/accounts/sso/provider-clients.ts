import * as oidc from 'openid-client'
import { isProtectedUrl } from '../../../../shared/kernel/setting-values.ts'
import type { Clock } from '../../../../shared/kernel/time.ts'
import type { Vault } from '../../../core/secrets.ts'
import { ProviderProblem } from './provider-failure.ts'
import { openSecret, type ProviderEntry } from './provider-rows.ts'

/** A description older than this is asked for again. */
const FRESH_MS = 600_000
const TIMEOUT_SECONDS = 10
const MOST_BYTES = 1024 * 1024
const MAX_CACHED = 200

/** Talks to providers; what they say about themselves is cached for a while. */
export interface ProviderClients {
  /** The provider as its own discovery document describes it. Fails as openid-client does. */
  get(provider: ProviderEntry): Promise<oidc.Configuration>
  /** The same, asked for anew. */
  fresh(provider: ProviderEntry): Promise<oidc.Configuration>
}

/** Clients that open the secrets of providers with this vault. */
export function createProviderClients({ vault, clock }: { vault: Vault; clock: Clock }): ProviderClients {
  const known = new Map<string, { readonly key: string; readonly until: number; readonly client: oidc.Configuration }>()
  const fresh = async (provider: ProviderEntry): Promise<oidc.Configuration> => {
    const secret = openSecret(vault, provider)
    return describe(provider, secret)
  }
  return {
    fresh,
    get: async (provider) => {
      const key = JSON.stringify([provider.clientId, provider.discoveryUrl, provider.secret])
      const entry = known.get(provider.id)
      if (entry !== undefined && entry.key === key && entry.until > clock.monotonicMs()) return entry.client
      const client = await fresh(provider)
      const [oldest] = known.keys()
      if (known.size >= MAX_CACHED && oldest !== undefined) known.delete(oldest)
      known.set(provider.id, { key, until: clock.monotonicMs() + FRESH_MS, client })
      return client
    },
  }
}

async function describe({ clientId, discoveryUrl }: ProviderEntry, secret: string | null): Promise<oidc.Configuration> {
  const url = new URL(discoveryUrl ?? '')
  const execute = url.protocol === 'http:' ? [oidc.allowInsecureRequests] : []
  const options = { [oidc.customFetch]: guardedFetch, timeout: TIMEOUT_SECONDS, execute }
  const found = await oidc.discovery(url, clientId ?? '', undefined, undefined, options)
  const server = found.serverMetadata()
  refuseOtherIssuer(url, server.issuer)
  const client = new oidc.Configuration(server, clientId ?? '', undefined, clientAuth(server, secret))
  client[oidc.customFetch] = guardedFetch
  client.timeout = TIMEOUT_SECONDS
  for (const extension of execute) extension(client)
  // The token comes over TLS from the provider itself, which would do for the protocol; its signature is checked all the same.
  oidc.enableNonRepudiationChecks(client)
  return client
}

/** Whoever can write the document at one address must not be able to speak for the issuer of another. */
function refuseOtherIssuer(url: URL, issuer: string): void {
  const expected = url.href.replace(/\/\.well-known\/openid-configuration\/?$/, '')
  const plain = (text: string): string => text.replace(/\/$/, '')
  if (plain(expected) === plain(issuer)) return
  throw new ProviderProblem(
    `its document is that of another issuer, ${issuer.slice(0, 200)}; give that address as the discovery URL`,
  )
}

/** The way of showing the secret that the provider knows; in the body where it knows both. */
function clientAuth(server: oidc.ServerMetadata, secret: string | null): oidc.ClientAuth {
  if (secret === null) return oidc.None()
  const known = server.token_endpoint_auth_methods_supported
  return known?.includes('client_secret_post') === true ? oidc.ClientSecretPost(secret) : oidc.ClientSecretBasic(secret)
}

/** Nothing goes in clear to another machine, wherever a document points to, and no answer may fill the memory. */
const guardedFetch: oidc.CustomFetch = async (url, options) => {
  if (!isProtectedUrl(url)) {
    throw new ProviderProblem(`its document points to ${new URL(url).origin}, which is no https address`)
  }
  const response = await fetch(url, { ...options, redirect: 'manual' } as RequestInit) // openid-client names the fields of fetch
  return new Response(await limited(response), { status: response.status, headers: response.headers })
}

async function limited(response: Response): Promise<ArrayBuffer | null> {
  if (response.body === null) return null
  const parts: Uint8Array[] = []
  let size = 0
  for await (const part of response.body) {
    size += part.byteLength
    if (size > MOST_BYTES) throw new ProviderProblem('its answer is larger than 1 MiB')
    parts.push(part)
  }
  const whole = new Uint8Array(size)
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.byteLength
  }
  return whole.buffer
}
