import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { createApiKey } from '../../../shared/api/api-keys.ts'
import * as api from '../../../shared/api/auth.ts'
import { verifyRecoveryCode, verifyTotp } from '../../../shared/api/two-factor.ts'
import type { Client } from '../../../shared/client.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import {
  type Context,
  type Credential,
  checkContextName,
  readCredential,
  removeCredential,
  saveContext,
  saveCredential,
} from '../../kit/profile/contexts.ts'
import { checkUrl, contextOf } from '../../kit/profile/target.ts'
import { readSecret } from '../../kit/prompt.ts'
import type { Run } from '../../kit/run.ts'
import type { Connection } from '../../net/http.ts'
import { agreeOnListener, listenerToKeep } from './listener-consent.ts'
import { readCode, readPasswordAndCode } from './one-time-code.ts'

const KEY_SECONDS = 30 * 86_400

/** Signs in and makes the context the current one. */
export const login: Action = async (run) => {
  const url = run.args.word('url') ?? (await run.target()).url
  checkUrl(url)
  checkName(run)
  await agreeOnListener(run, url)
  const ways = ['token-stdin', 'web'].filter((flag) => run.args.flag(flag))
  if (ways.length > 1) throw usage('--web and --token-stdin are two ways to sign in; choose one')
  const credential = await (ways[0] === 'web' ? byWeb : ways[0] === 'token-stdin' ? byToken : byPassword)(run, url)
  const { client } = await run.connectTo(url, credential.token)
  const me = await client.call(api.getMe)
  const expiresAt = me.credential.expiresAt
  const name = await keep(run, url, { ...credential, ...(expiresAt === null ? {} : { expiresAt }) })
  if (run.out.machine) return run.out.value({ context: name, url, username: me.username, expiresAt })
  run.notice(`signed in to ${url} as ${me.username} (context ${name})`)
}

/** Revokes the credential of the context and forgets it; the key of `panel up` belongs to its data folder and is forgotten only. */
export const logout: Action = async (run) => {
  const target = await run.target()
  const { contextName } = target
  const stored = target.source === 'context' ? await storedCredential(run, contextName) : undefined
  if (stored?.madeBy === 'up' && contextName !== undefined) {
    await removeCredential(run.env.configDir, contextName)
    return run.notice(`signed out of ${target.url}; "panel up" signs you in again with the key of its data folder`)
  }
  if (target.token !== undefined) {
    try {
      await (await run.client()).call(api.logout)
    } catch (error) {
      const dead = error instanceof PanelError && ['UNAUTHENTICATED', 'AUTH_EXPIRED'].includes(error.code)
      if (!dead) throw error
    }
  }
  const removed = contextName === undefined ? false : await removeCredential(run.env.configDir, contextName)
  run.notice(
    removed || target.token !== undefined ? `signed out of ${target.url}` : `you were not signed in to ${target.url}`,
  )
}

/** Refuses a name for the context before anything is made under it. */
export function checkName({ args }: Run): void {
  const name = args.text('name')
  if (name !== undefined) checkContextName(name)
}

/**
 * Keeps a credential under the context of this URL and makes that the current one; answers the context's name. One that cannot
 * be kept is revoked, unless it was there before: nobody would know it any more.
 */
export async function keep(run: Run, url: string, credential: Credential): Promise<string> {
  const { args, env } = run
  const known = await contextOf(env, args.text('context'), url)
  const name = args.text('name') ?? args.text('context') ?? known?.name ?? new URL(url).host.replaceAll(':', '-')
  const given = args.text('ca-file')
  const caFile = given === undefined ? known?.caFile : resolve(given)
  const listenerUid = await listenerToKeep(run, url)
  const insecureHttp = args.flag('insecure-http') || known?.insecureHttp === true
  const store = args.text('store') === 'keyring' ? 'keyring' : 'file'
  try {
    await saveCredential(env.configDir, name, { credential, store })
  } catch (error) {
    if (!args.flag('token-stdin')) await (await run.connectTo(url, credential.token)).client.call(api.logout)
    throw error
  }
  const context: Context = {
    ...{ name, url },
    ...(caFile === undefined ? {} : { caFile }),
    ...(known?.socket === undefined ? {} : { socket: known.socket }),
    ...(listenerUid === undefined ? {} : { listenerUid }),
    ...(insecureHttp ? { insecureHttp } : {}),
  }
  await saveContext(env.configDir, context, true)
  return name
}

/** An API key for this machine in the place of the session, where the account may make one. */
export async function keyForSession(session: Connection, sessionToken: string): Promise<Credential> {
  try {
    const made = await session.client.call(createApiKey, {
      body: { name: `cli@${hostname().slice(0, 90)}`, allPermissions: true, expiresIn: KEY_SECONDS },
    })
    await session.client.call(api.logout)
    return { token: made.key, keyId: made.id, ...(made.expiresAt === null ? {} : { expiresAt: made.expiresAt }) }
  } catch (error) {
    if (error instanceof PanelError && error.code === 'PERMISSION_DENIED') return { token: sessionToken }
    throw error
  }
}

async function byToken(run: Run): Promise<Credential> {
  return { token: (await readSecret({ name: 'token', question: 'API key:' }, run)).trim() }
}

async function byPassword(run: Run, url: string): Promise<Credential> {
  const email = run.args.text('username') ?? (await run.prompt.ask('User name or e-mail address:', '--username'))
  const { password, code } = await readPasswordAndCode(run)
  const { client } = await run.connectTo(url, undefined)
  // Where no key can be made the session is what stays, so it must not end with the day.
  const body = { email, password, rememberMe: true }
  const token = await signIn(client, () => client.call(api.login, { body }), code)
  return keyForSession(await run.connectTo(url, token), token)
}

async function byWeb(run: Run, url: string): Promise<Credential> {
  const { signInThroughBrowser } = await import('./web-login.ts')
  const { client } = await run.connectTo(url, undefined)
  const token = await signIn(
    client,
    () => signInThroughBrowser(run, client),
    () => readCode(run),
  )
  return keyForSession(await run.connectTo(url, token), token)
}

/** Answers a session; asks for the second factor when the account has one. */
async function signIn(
  client: Client,
  first: () => Promise<{ readonly token: string }>,
  code: () => Promise<string>,
): Promise<string> {
  try {
    return (await first()).token
  } catch (error) {
    const token = error instanceof PanelError ? error.meta['token'] : undefined
    if (!(error instanceof PanelError) || error.code !== 'TWO_FACTOR_REQUIRED' || typeof token !== 'string') throw error
    const typed = await code()
    if (!/^\d{6}$/.test(typed)) return (await client.call(verifyRecoveryCode, { body: { token, code: typed } })).token
    const done = await client.call(verifyTotp, { body: { token, code: typed } })
    if (done.token === null) throw new PanelError('INTERNAL_ERROR', 'The panel has answered no session')
    return done.token
  }
}

/** The stored credential of a context, for `auth status`. */
export async function storedCredential(run: Run, contextName: string | undefined): Promise<Credential | undefined> {
  return contextName === undefined ? undefined : readCredential(run.env.configDir, contextName)
}
