import * as oidc from 'openid-client'
import type * as api from '../../../../shared/api/sso.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Context } from '../../../http/route.ts'
import type { SsoDeps } from './deps.ts'
import {
  BINDING_COOKIE,
  beginByTicket,
  beginInBrowser,
  challengeOf,
  FLOW_SECONDS,
  findTicket,
  type Sent,
  takeTicket,
} from './flows.ts'
import { explainFailure } from './provider-failure.ts'
import { callbackUrl, type ProviderEntry } from './provider-rows.ts'
import { usableProvider } from './providers.ts'

type Begin = Input<typeof api.signInByProvider>['body']

/** Sends the browser of a program to its provider, by the ticket that the program was given. */
export async function startSso(
  deps: SsoDeps,
  { query }: Input<typeof api.startSso>,
  context: Context<typeof api.startSso>,
) {
  const found = await findTicket(deps.db.read, query.ticket, deps.clock.nowMs())
  const provider = found === undefined ? undefined : await usableProvider(deps, found.providerId)
  const client = provider === undefined ? undefined : await reach(deps, provider)
  const sent = await deps.db.write((tx) => takeTicket(tx, query.ticket))
  if (provider === undefined || client === undefined || sent === undefined) {
    return context.fail('TOKEN_INVALID', 'This address works once, for ten minutes; begin again')
  }
  return { location: authorizationUrl(deps, context, { provider, client, sent }) }
}

/** The description of a provider, or PROVIDER_FAILED with what is wrong. */
export async function reach(deps: SsoDeps, provider: ProviderEntry): Promise<oidc.Configuration> {
  try {
    return await deps.clients.get(provider)
  } catch (error) {
    if (error instanceof PanelError) throw error
    deps.log.warn({ err: error, provider: provider.id }, 'identity provider is unusable')
    throw new PanelError('PROVIDER_FAILED', `${provider.name} cannot be used: ${explainFailure(error, provider)}`, {
      cause: error,
    })
  }
}

/** Where a browser is to go to sign in at a provider. */
export async function begin(
  deps: SsoDeps,
  context: Pick<Context, 'setCookie'>,
  { providerId, callbackURL, loopback, userId }: Begin & { userId: string | null },
) {
  const provider = await usableProvider(deps, providerId)
  const client = await reach(deps, provider)
  const request = { providerId, userId, returnTo: callbackURL ?? null, loopback: loopback ?? null }
  const rest = { redirect: true as const, expiresInSeconds: FLOW_SECONDS }
  if (loopback === undefined) {
    const sent = await beginInBrowser(deps.db, deps.clock, request)
    return { url: authorizationUrl(deps, context, { provider, client, sent }), ...rest }
  }
  // The browser is another program: it must come here first, to be known again when it comes back.
  const url = new URL('/api/auth/oauth2/start', deps.publicUrl())
  url.searchParams.set('ticket', await beginByTicket(deps.db, deps.clock, request))
  return { url: url.href, ...rest }
}

function authorizationUrl(
  deps: SsoDeps,
  context: Pick<Context, 'setCookie'>,
  { provider, client, sent }: { provider: ProviderEntry; client: oidc.Configuration; sent: Sent },
): string {
  context.setCookie(BINDING_COOKIE, sent.binding, FLOW_SECONDS)
  const url = oidc.buildAuthorizationUrl(client, {
    response_type: 'code',
    redirect_uri: callbackUrl(deps.publicUrl(), provider.id),
    scope: ['openid', ...provider.scopes.filter((scope) => scope !== 'openid')].join(' '),
    state: sent.state,
    nonce: sent.nonce,
    code_challenge: challengeOf(sent.verifier),
    code_challenge_method: 'S256',
  })
  return url.href
}
