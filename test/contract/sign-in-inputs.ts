import { beginPasskey, passkeySignInOptions } from '../../src/shared/api/passkeys.ts'
import { putProvider } from '../../src/shared/api/providers.ts'
import { completeSsoLink, linkSsoAccount, signInByProvider } from '../../src/shared/api/sso.ts'
import type { Client } from '../../src/shared/client.ts'
import { ProviderId } from '../../src/shared/kernel/ids.ts'
import { createPasskey } from '../authenticator.ts'
import { Browser } from '../browser.ts'
import { atProgram, waiting } from '../daemon/sso/sign-ins.ts'
import { startForger } from '../forging-provider.ts'
import type { Make } from './inputs.ts'
import { addPasskey, signIn, type World } from './world.ts'

const provider = { clientId: 'panel', discoveryUrl: 'http://127.0.0.1:1' }
const named = (world: World): string => `name-${world.next()}`

/** Valid requests of the endpoints of identity providers, sign-in by them, and passkeys. */
export const SIGN_IN_INPUTS: Readonly<Record<string, Make>> = {
  'passkeys.begin': async (world) => ({ token: (await person(world)).token, body: {}, otherBody: { name: 'other' } }),
  'passkeys.delete': async (world) => {
    const { token, client } = await person(world)
    return { token, params: { passkeyId: (await addPasskey(world.panel, client)).id } }
  },
  'passkeys.rename': async (world) => {
    const { token, client } = await person(world)
    return { token, params: { passkeyId: (await addPasskey(world.panel, client)).id }, body: { name: 'phone' } }
  },
  'passkeys.sign_in': async (world) => {
    const { client } = await person(world)
    const { key } = await addPasskey(world.panel, client)
    const options = () => world.panel.as(undefined).call(passkeySignInOptions)
    const body = { response: key.sign(await options()) }
    return { token: null, body, otherBody: { response: key.sign(await options()) } }
  },
  'passkeys.sign_in_options': () => ({ token: null }),
  'passkeys.verify': async (world) => {
    const { token, client } = await person(world)
    const key = createPasskey(world.panel.url.replace('127.0.0.1', 'localhost'))
    const body = { response: key.register(await client.call(beginPasskey)) }
    return { token, body, otherBody: { ...body, name: 'other' } }
  },
  'providers.delete': async (world) => ({ params: { providerId: await plainProvider(world) } }),
  'providers.get': ({ ids }) => ({ params: { providerId: ids['providerId'] ?? '' } }),
  'providers.put': (world) => ({ params: { providerId: named(world) }, body: { ...provider, createAccounts: true } }),
  'providers.test': async (world) => ({ params: { providerId: await plainProvider(world) } }),
  'settings.oidc_update': (world) => ({ body: { whmcs: { clientId: named(world) } } }),
  'sso.callback': async (world) => {
    const browser = new Browser()
    const back = await comeBack(world, browser)
    const cookie = browser.cookiesFor(world.panel.url)
    return { token: null, headers: { cookie }, params: { providerId: back.providerId }, query: back.query }
  },
  'sso.exchange': async (world) => {
    const { providerId } = await linked(world)
    const body = await codeFor(world.panel.as(undefined), providerId)
    return { token: null, body, otherBody: { ...body, code: 'another' } }
  },
  'sso.link': async (world) => {
    const { token } = await person(world)
    const body = { providerId: await forger(world) }
    return { token, body, otherBody: { ...body, callbackURL: '/other' } }
  },
  'sso.link_complete': async (world) => {
    const { token, client } = await person(world)
    const body = await codeToLink(client, await forger(world))
    return { token, body, otherBody: { ...body, code: 'another' } }
  },
  'sso.sign_in': async (world) => {
    const body = { providerId: await forger(world) }
    return { token: null, body, otherBody: { ...body, callbackURL: '/other' } }
  },
  'sso.start': async (world) => {
    const body = { providerId: await forger(world), loopback: waiting().loopback }
    const { url } = await world.panel.as(undefined).call(signInByProvider, { body })
    return { token: null, query: { ticket: new URL(url).searchParams.get('ticket') ?? '' } }
  },
  'sso.unlink': async (world) => {
    const { token, providerId } = await linked(world)
    return { token, body: { providerId }, otherBody: { providerId, accountId: 'another' } }
  },
}

async function person(world: World): Promise<{ token: string; client: Client }> {
  const { token } = await signIn(world.panel, `signer-${world.next()}`)
  return { token, client: world.panel.as(token) }
}

async function plainProvider(world: World): Promise<ProviderId> {
  const providerId = ProviderId.parse(named(world))
  await world.admin.call(putProvider, { params: { providerId }, body: provider })
  return providerId
}

/** A provider that answers; everybody there is another person. */
async function forger(world: World): Promise<ProviderId> {
  const { issuer } = await startForger(`person-${world.next()}`)
  const providerId = ProviderId.parse(named(world))
  await world.admin.call(putProvider, { params: { providerId }, body: { clientId: 'panel', discoveryUrl: issuer } })
  return providerId
}

/** Somebody whose account at a provider is linked. */
async function linked(world: World): Promise<{ token: string; providerId: ProviderId }> {
  const { token, client } = await person(world)
  const providerId = await forger(world)
  await client.call(completeSsoLink, { body: await codeToLink(client, providerId) })
  return { token, providerId }
}

async function codeToLink(client: Client, providerId: ProviderId) {
  const program = waiting()
  const { url } = await client.call(linkSsoAccount, { body: { providerId, loopback: program.loopback } })
  return proof(program.verifier, url)
}

async function codeFor(client: Client, providerId: ProviderId) {
  const program = waiting()
  const { url } = await client.call(signInByProvider, { body: { providerId, loopback: program.loopback } })
  return proof(program.verifier, url)
}

async function proof(codeVerifier: string, url: string): Promise<{ code: string; codeVerifier: string }> {
  const arrived = await new Browser().go(url, atProgram)
  return { code: arrived.url.searchParams.get('code') ?? '', codeVerifier }
}

/** A browser on its way back from a provider, where it signs in on a page of the panel. */
async function comeBack(world: World, browser: Browser) {
  const { providerId } = await linked(world)
  const answer = await fetch(`${world.panel.url}/api/auth/sign-in/oauth2`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ providerId }),
  })
  browser.take(world.panel.url, answer.headers)
  const { data } = (await answer.json()) as { data: { url: string } } // the answer of that endpoint
  const { url } = await browser.go(data.url, ({ pathname }) => pathname.startsWith('/api/auth/oauth2/callback/'))
  return { providerId, query: Object.fromEntries(url.searchParams) }
}
