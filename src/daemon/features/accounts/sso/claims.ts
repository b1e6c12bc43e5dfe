import * as oidc from 'openid-client'
import { Email } from '../../../../shared/api/auth.ts'
import type { ProviderEntry } from './provider-rows.ts'

/** Who somebody is at a provider, as the provider has signed it. */
export interface Person {
  readonly issuer: string
  readonly subject: string
  /** In lower case; `null` when there is none that is one. */
  readonly email: string | null
  /** Whether the provider says that the address is this person's. */
  readonly emailVerified: boolean
  readonly username: string | null
  readonly firstName: string | null
  readonly lastName: string | null
  readonly groups: readonly string[]
  readonly scopes: readonly string[]
}

type Claims = Readonly<Record<string, unknown>>

const MOST_GROUPS = 2000

/** Changes the code for the identity behind it. Issuer, audience, signature, nonce, state and verifier are checked by openid-client. */
export async function personBehind(
  client: oidc.Configuration,
  provider: ProviderEntry,
  answer: { readonly url: URL; readonly state: string; readonly nonce: string; readonly verifier: string },
): Promise<Person> {
  const tokens = await oidc.authorizationCodeGrant(client, answer.url, {
    expectedState: answer.state,
    expectedNonce: answer.nonce,
    pkceCodeVerifier: answer.verifier,
    idTokenExpected: true,
  })
  const signed = tokens.claims()
  if (signed === undefined || signed.sub.length > 255) throw new Error('the provider has sent no usable ID token')
  const wanted = ['email', 'email_verified', ...(provider.groupClaim === null ? [] : [provider.groupClaim])]
  const complete = wanted.every((name) => claimAt(signed, name) !== undefined)
  const asked = !complete && client.serverMetadata().userinfo_endpoint !== undefined
  const userInfo = asked ? await oidc.fetchUserInfo(client, tokens.access_token, signed.sub) : {}
  // An address and the word that it is confirmed must come from the same place.
  const address = 'email_verified' in signed ? signed : { email: signed['email'], ...userInfo }
  const { email, email_verified } = address as Claims // each is looked at before it is used
  return personOf({ ...userInfo, ...signed, email, email_verified }, provider, tokens.scope)
}

function personOf(
  claims: Claims & { iss: string; sub: string },
  provider: ProviderEntry,
  scope: string | undefined,
): Person {
  const email = Email.safeParse(claims['email'])
  return {
    issuer: claims.iss,
    subject: claims.sub,
    email: email.success ? email.data : null,
    emailVerified: email.success && claims['email_verified'] === true,
    username: text(claims['preferred_username']) ?? text(claims['nickname']),
    firstName: text(claims['given_name']),
    lastName: text(claims['family_name']),
    groups: provider.groupClaim === null ? [] : groupsOf(claimAt(claims, provider.groupClaim)),
    scopes: (scope ?? ['openid', ...provider.scopes].join(' ')).split(' ').filter((part) => part !== ''),
  }
}

/** The claim of this name, or the one that dots lead to: `realm_access.roles`. */
function claimAt(claims: Claims, name: string): unknown {
  if (Object.hasOwn(claims, name)) return claims[name]
  let at: unknown = claims
  for (const part of name.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, part)) return undefined
    at = Reflect.get(at, part)
  }
  return at
}

function groupsOf(claim: unknown): string[] {
  const list: unknown[] = Array.isArray(claim) ? claim : [claim]
  return list.filter((item) => typeof item === 'string').slice(0, MOST_GROUPS)
}

function text(claim: unknown): string | null {
  if (typeof claim !== 'string') return null
  const clean = claim
    .replace(/\p{Cc}/gu, '')
    .trim()
    .slice(0, 100)
  return clean === '' ? null : clean
}
