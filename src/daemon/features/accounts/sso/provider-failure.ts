import * as oidc from 'openid-client'

/** Something about a provider that this panel itself does not take; the message is the end of a sentence. */
export class ProviderProblem extends Error {
  override readonly name = 'ProviderProblem'
}

/** Whether the trouble is with reaching the provider, and not with what it has said about somebody. */
export function isOutage(error: unknown): boolean {
  const texts = chain(error).map(codeOf)
  return texts.some((code) => NETWORK.test(code)) || (error instanceof oidc.ResponseBodyError && error.status >= 500)
}

/** What is wrong, as the end of a sentence: never a token, and of the provider's own words only its error code and text. */
export function explainFailure(error: unknown, { discoveryUrl }: { readonly discoveryUrl: string | null }): string {
  const { host, hostname } = new URL(discoveryUrl ?? 'https://unknown')
  const errors = chain(error)
  const own = errors.find((one) => one instanceof ProviderProblem)
  if (own !== undefined) return own.message
  if (error instanceof oidc.ResponseBodyError) return said(host, error.error, error.error_description)
  if (error instanceof oidc.AuthorizationResponseError) return said(host, error.error, error.error_description)
  const codes = errors.map(codeOf).join(' ')
  const messages = errors.map(({ message }) => message).join('; ')
  if (/ENOTFOUND|EAI_AGAIN/.test(codes)) return `the name ${hostname} is not known; check the discovery URL`
  if (/ECONNREFUSED/.test(codes)) return `nothing listens on ${host}; check the discovery URL`
  if (/OAUTH_TIMEOUT|ETIMEDOUT|UND_ERR_\w*TIMEOUT/.test(codes)) return `${host} does not answer within 10 s`
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(codes))
    return `TLS with ${host} has failed (${tlsWord(codes)})`
  if (/ECONNRESET|UND_ERR_SOCKET|EHOSTUNREACH|ENETUNREACH/.test(codes)) return `the connection to ${host} has failed`
  if (/OAUTH_RESPONSE_IS_NOT_JSON|OAUTH_PARSE_ERROR/.test(codes)) {
    return `${host} answers no JSON; the discovery URL must be that of an OpenID Connect provider`
  }
  if (/OAUTH_RESPONSE_IS_NOT_CONFORM/.test(codes)) {
    return `${host} has no discovery document there (status ${statusOf(errors)}); check the discovery URL`
  }
  if (/OAUTH_JSON_ATTRIBUTE_COMPARISON_FAILED/.test(codes)) {
    return `the document of ${host} names another issuer than the discovery URL`
  }
  return messages.replace(/\s+/g, ' ').slice(0, 300)
}

const NETWORK =
  /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|UND_ERR|OAUTH_TIMEOUT|CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL|OAUTH_RESPONSE_IS_NOT_JSON|OAUTH_RESPONSE_IS_NOT_CONFORM|OAUTH_PARSE_ERROR/

function said(host: string, error: string, description: string | undefined): string {
  const clean = (text: string): string => text.replace(/\s+/g, ' ').trim().slice(0, 200)
  return `${host} says ${clean(error)}${description === undefined ? '' : `: ${clean(description)}`}`
}

function tlsWord(codes: string): string {
  return codes.match(/[A-Z_]+/g)?.find((word) => /CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|ERR_SSL/.test(word)) ?? 'unknown'
}

function statusOf(errors: readonly Error[]): string {
  const response = errors.map(({ cause }) => cause).find((cause) => cause instanceof Response)
  return response instanceof Response ? String(response.status) : 'unexpected'
}

function codeOf(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : ''
}

/** The error and what caused it, as far as these are errors. */
function chain(error: unknown): Error[] {
  const found: Error[] = []
  for (let one = error; one instanceof Error && found.length < 8; one = one.cause) {
    found.push(one)
    if (one instanceof AggregateError) found.push(...one.errors.filter((inner) => inner instanceof Error))
  }
  return found
}
