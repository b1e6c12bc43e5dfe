import * as oidc from 'openid-client'
import type { ProviderTest } from '../../../../shared/api/providers.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newSecret } from '../../../core/secrets.ts'
import type { SsoDeps } from './deps.ts'
import { explainFailure } from './provider-failure.ts'
import { callbackUrl, isConfigured, type ProviderEntry } from './provider-rows.ts'

/** What a provider answers to a code that it never made, when it knows the client. */
const KNOWS_CLIENT = new Set(['invalid_grant', 'invalid_request'])

/** Looks at everything that can be looked at without a person: the document, the keys, and whether the client is known. */
export async function testProvider(deps: SsoDeps, provider: ProviderEntry): Promise<ProviderTest> {
  if (!isConfigured(provider)) {
    return { ok: false, step: 'settings', error: 'Client id and discovery URL are not both set' }
  }
  const failed = (step: ProviderTest['step'], error: unknown, issuer?: string): ProviderTest => ({
    ok: false,
    ...(issuer === undefined ? {} : { issuer }),
    ...(step === undefined ? {} : { step }),
    error: error instanceof PanelError ? error.message : sentence(explainFailure(error, provider)),
  })
  let client: oidc.Configuration
  try {
    client = await deps.clients.fresh(provider)
  } catch (error) {
    return failed(error instanceof PanelError ? 'settings' : 'discovery', error)
  }
  const { issuer, jwks_uri, response_types_supported, code_challenge_methods_supported } = client.serverMetadata()
  const problem =
    response_types_supported?.includes('code') === false
      ? 'The provider does not know the authorization code flow'
      : code_challenge_methods_supported?.includes('S256') === false
        ? 'The provider does not know PKCE with S256'
        : undefined
  if (problem !== undefined) return { ok: false, issuer, step: 'discovery', error: problem }
  const keys = await keysProblem(client, jwks_uri).catch((error: unknown) => failed('keys', error, issuer))
  if (typeof keys === 'string') return { ok: false, issuer, step: 'keys', error: keys }
  if (keys !== undefined) return keys
  const refusal = await tryClient(client, callbackUrl(deps.publicUrl(), provider.id))
  return refusal === undefined ? { ok: true, issuer } : failed('client', refusal, issuer)
}

async function keysProblem(client: oidc.Configuration, jwksUri: string | undefined): Promise<string | undefined> {
  const get = client[oidc.customFetch]
  if (jwksUri === undefined || get === undefined) return 'The document names no keys (jwks_uri)'
  const response = await get(jwksUri, {
    method: 'GET',
    headers: { accept: 'application/json' },
    body: null,
    redirect: 'manual',
    signal: AbortSignal.timeout(10_000),
  })
  const keys: unknown = response.ok ? await response.json() : undefined
  const list = typeof keys === 'object' && keys !== null && 'keys' in keys ? keys.keys : undefined
  return Array.isArray(list) && list.length > 0 ? undefined : `There are no keys at ${jwksUri}`
}

/** The failure that says that client or secret are wrong; a provider that knows them only refuses the code. */
async function tryClient(client: oidc.Configuration, redirectUri: string): Promise<unknown> {
  try {
    const parameters = { code: newSecret(), redirect_uri: redirectUri, code_verifier: newSecret() }
    await oidc.genericGrantRequest(client, 'authorization_code', parameters)
    return undefined
  } catch (error) {
    return error instanceof oidc.ResponseBodyError && KNOWS_CLIENT.has(error.error) ? undefined : error
  }
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`
}
