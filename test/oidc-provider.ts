import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Provider, { type Configuration } from 'oidc-provider'

/** Somebody with an account at the provider. */
export interface PersonThere {
  readonly sub: string
  readonly email?: string
  readonly email_verified?: boolean
  readonly preferred_username?: string
  readonly given_name?: string
  readonly family_name?: string
  readonly groups?: readonly string[]
}

/** A real OpenID Connect provider on loopback. Whoever comes is signed in as `person` and agrees to everything. */
export interface TestProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  person: PersonThere
  close(): Promise<void>
}

const CLIENT_ID = 'the-panel'
const CLIENT_SECRET = 'secret-of-the-panel-at-the-provider'

/** Starts one that knows a client with these redirect addresses. */
export async function startProvider(redirectUris: readonly string[]): Promise<TestProvider> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo // it listens on a port
  const issuer = `http://127.0.0.1:${port}`
  const self = { person: { sub: 'ann' } as PersonThere }
  const configuration: Configuration = {
    clients: [
      {
        client_id: CLIENT_ID,
        client_secret: CLIENT_SECRET,
        redirect_uris: [...redirectUris],
        grant_types: ['authorization_code'],
        response_types: ['code'],
      },
    ],
    claims: {
      openid: ['sub'],
      email: ['email', 'email_verified'],
      profile: ['preferred_username', 'given_name', 'family_name'],
      groups: ['groups'],
    },
    scopes: ['openid', 'email', 'profile', 'groups'],
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ ...self.person, sub }) }),
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    cookies: { keys: ['a key of this test alone'] },
    ttl: { AccessToken: 600, AuthorizationCode: 60, Grant: 600, IdToken: 600, Interaction: 600, Session: 600 },
  }
  const provider = new Provider(issuer, configuration)
  provider.on('server_error', () => undefined) // what it answers is what the test looks at
  provider.use(async (ctx, next) => {
    if (!ctx.path.startsWith('/interaction/')) return next()
    const details = await provider.interactionDetails(ctx.req, ctx.res)
    const accountId = self.person.sub
    const grant = new provider.Grant({ accountId, clientId: CLIENT_ID })
    grant.addOIDCScope(String(details.params['scope']))
    const consent = { grantId: await grant.save() }
    await provider.interactionFinished(ctx.req, ctx.res, { login: { accountId }, consent })
    ctx.respond = false
  })
  server.on('request', provider.callback())
  return Object.assign(self, {
    issuer,
    clientId: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  })
}
