import { listProviders } from '../../../shared/api/providers.ts'
import { exchangeSsoCode, signInByProvider } from '../../../shared/api/sso.ts'
import type { Client } from '../../../shared/client.ts'
import { ProviderId } from '../../../shared/kernel/ids.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'
import { throughBrowser } from './browser-trip.ts'

/** Signs in by an identity provider in a browser; answers as a sign-in by password does, TWO_FACTOR_REQUIRED included. */
export async function signInThroughBrowser(run: Run, client: Client): Promise<{ readonly token: string }> {
  const providerId = await chooseProvider(run, client)
  const body = await throughBrowser(run, async (loopback) => {
    return (await client.call(signInByProvider, { body: { providerId, loopback } })).url
  })
  return client.call(exchangeSsoCode, { body })
}

/** The one that is named, or the only one there is. */
async function chooseProvider(run: Run, client: Client): Promise<ProviderId> {
  const given = run.args.text('provider')
  if (given !== undefined) {
    const parsed = ProviderId.safeParse(given)
    if (!parsed.success) throw usage(`--provider ${given}: ${parsed.error.issues[0]?.message ?? 'is no id'}`)
    return parsed.data
  }
  const all = await client.call(listProviders, { query: { limit: 100 } })
  const enabled = all.filter((provider) => provider.enabled)
  const [only] = enabled
  if (only === undefined) {
    throw new CliFailure('NOT_FOUND', 'this panel has no identity provider to sign in by', {
      hint: 'panel login without --web',
    })
  }
  const names = enabled.map(({ id, name }) => `${id} (${name})`).join(', ')
  if (enabled.length === 1) return ProviderId.parse(only.id)
  return ProviderId.parse(await run.prompt.ask(`Identity provider, one of ${names}:`, '--provider'))
}
