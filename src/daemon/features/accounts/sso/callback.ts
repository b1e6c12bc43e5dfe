import * as api from '../../../../shared/api/sso.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { recordChange, recordFact, unauthenticated } from '../../../access/operation.ts'
import type { Context } from '../../../http/route.ts'
import type { Account } from '../auth/accounts.ts'
import { PENDING_COOKIE } from '../auth/pending-sign-in.ts'
import { finishFirstFactor } from '../auth/sign-in.ts'
import { admit, link, linkingOf } from './admit.ts'
import { reach } from './begin.ts'
import { type Person, personBehind } from './claims.ts'
import { makeCode } from './codes.ts'
import type { SsoDeps } from './deps.ts'
import { BINDING_COOKIE, type Flow, findFlow, isSameBrowser, sentFrom, takeFlow } from './flows.ts'
import { explainFailure, isOutage } from './provider-failure.ts'
import { callbackUrl, type ProviderEntry } from './provider-rows.ts'
import { usableProvider } from './providers.ts'

type Query = Input<typeof api.ssoCallback>['query']
type Asked = Pick<Context, 'origin' | 'setSession' | 'setCookie' | 'cookie' | 'identify'>

/** Takes a browser back. Once its flow is known every outcome is reported where the flow began. */
export async function ssoCallback(
  deps: SsoDeps,
  { params, query }: Input<typeof api.ssoCallback>,
  context: Context<typeof api.ssoCallback>,
) {
  const flow = await findFlow(deps.db.read, query.state, deps.clock.nowMs())
  const binding = context.cookie(BINDING_COOKIE)
  const mine = flow !== undefined && flow.providerId === params.providerId && isSameBrowser(flow, binding)
  if (!mine || binding === undefined || !(await deps.db.write((tx) => takeFlow(tx, flow.id)))) {
    return context.fail('TOKEN_INVALID', 'This sign-in is unknown, over, or was begun by another browser; begin again')
  }
  context.setCookie(BINDING_COOKIE, null)
  try {
    const provider = await usableProvider(deps, params.providerId)
    const person = await identify(deps, context, { provider, query, binding })
    return { location: await arrive(deps, context, { flow, provider, person }) }
  } catch (error) {
    if (!(error instanceof PanelError) || error.code === 'INTERNAL_ERROR') throw error
    return { location: refusedAt(flow, error) }
  }
}

/** Who has come back; a refusal is written down. */
async function identify(
  deps: SsoDeps,
  context: Asked,
  { provider, query, binding }: { provider: ProviderEntry; query: Query; binding: string },
): Promise<Person> {
  const client = await reach(deps, provider)
  const url = new URL(callbackUrl(deps.publicUrl(), provider.id))
  for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value)
  try {
    return await personBehind(client, provider, { url, ...sentFrom(binding, query.state) })
  } catch (error) {
    const reason = explainFailure(error, provider)
    deps.log.warn({ err: error, provider: provider.id }, 'identity provider sign-in failed')
    const failed = { action: 'auth.login_failed', resource: 'identity_provider', resourceId: provider.id }
    const principal = unauthenticated(context.origin)
    await deps.db.write((tx) =>
      recordFact(tx, { deps, principal }, { audit: { ...failed, details: { provider: provider.id, reason } } }),
    )
    if (isOutage(error)) throw new PanelError('PROVIDER_FAILED', `${provider.name} cannot be used: ${reason}`)
    throw new PanelError('INVALID_CREDENTIALS', `The sign-in by ${provider.name} has failed: ${reason}`)
  }
}

/** Where the browser goes with what has come of it. */
async function arrive(
  deps: SsoDeps,
  context: Asked,
  { flow, provider, person }: { flow: Flow; provider: ProviderEntry; person: Person },
): Promise<string> {
  const { loopback, userId } = flow
  if (userId !== null) {
    const linking = linkingOf(provider, person)
    if (loopback !== null) {
      const code = await deps.db.write((tx) => makeCode(tx, { userId, linking }, loopback.codeChallenge))
      return carrying(flow, { code })
    }
    // The cookie says that it is the same browser; the session, that it is still the same person.
    const caller = await context.identify()
    if (caller?.userId !== userId) throw new PanelError('UNAUTHENTICATED', 'Sign in first, then link the account')
    await deps.db.write(async (tx) => {
      await link(tx, deps, userId, linking)
      const details = { provider: provider.id, accountId: person.subject, email: person.email }
      const principal = { kind: 'caller', caller, origin: context.origin } as const
      await recordChange(
        tx,
        { deps, principal, endpoint: api.completeSsoLink },
        { audit: { resourceId: userId, details } },
      )
    })
    return carrying(flow, {})
  }
  const account = await deps.db.write((tx) => admit(tx, deps, { provider, person, origin: context.origin }))
  if (loopback === null) return signInHere(deps, context, flow, account)
  const code = await deps.db.write((tx) => makeCode(tx, { userId: account.id, linking: null }, loopback.codeChallenge))
  return carrying(flow, { code })
}

async function signInHere(deps: SsoDeps, context: Asked, flow: Flow, account: Account): Promise<string> {
  const attempt = { account: account.email, origin: context.origin }
  try {
    await finishFirstFactor(deps, context, { account, attempt, persistent: false })
    context.setCookie(PENDING_COOKIE, null)
    return carrying(flow, {})
  } catch (error) {
    // The token of the waiting sign-in stands in a cookie: an address is no place for it.
    if (error instanceof PanelError && error.code === 'TWO_FACTOR_REQUIRED') {
      return carrying(flow, { twoFactorRequired: 'true' })
    }
    throw error
  }
}

function refusedAt(flow: Flow, { code, message }: PanelError): string {
  return carrying(flow, { error: code, message })
}

/** The page or the waiting program of a flow, with what it is handed. */
function carrying({ loopback, returnTo }: Flow, values: Readonly<Record<string, string>>): string {
  const query = new URLSearchParams({ ...values, ...(loopback === null ? {} : { state: loopback.state }) })
  if (loopback !== null) return `http://127.0.0.1:${loopback.port}/callback?${query}`
  const page = returnTo ?? '/'
  const more = query.size === 0 ? '' : `${page.includes('?') ? '&' : '?'}${query}`
  const [path = '/', hash] = page.split('#')
  return hash === undefined ? `${path}${more}` : `${path}${more}#${hash}`
}
