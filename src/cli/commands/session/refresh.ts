import { getApiKey } from '../../../shared/api/api-keys.ts'
import { getMe } from '../../../shared/api/auth.ts'
import { ApiKeyId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { saveCredential, storeOf } from '../../kit/profile/contexts.ts'
import { signInHint } from '../../kit/profile/target.ts'
import { call } from '../../kit/resource/actions.ts'
import { makeSuccessor, overlapOf, retire } from '../api-keys/successor.ts'

/** Puts a new key in the place of the context's; the old one goes on working for a while, for what still uses it. */
export const refresh: Action = async (run) => {
  const { contextName, source, url } = await run.target()
  if (source === 'environment') throw usage('PANEL_TOKEN is yours to replace: panel api-keys rotate <key>')
  if (contextName === undefined || source === 'none') {
    throw new CliFailure('NOT_SIGNED_IN', `you are not signed in to ${url}`, { hint: signInHint({ contextName, url }) })
  }
  const { credential } = await (await run.client()).call(getMe)
  if (credential.kind !== 'apiKey') throw usage('this context keeps a session, which has no successor: panel login')
  const overlapMs = overlapOf(run)
  const old = await call(run, getApiKey, { params: { keyId: ApiKeyId.parse(credential.id) } })
  const made = await makeSuccessor(
    run,
    old,
    run.args.list('scopes').flatMap((text) => text.split(',')),
  )
  const { key: token, id: keyId, expiresAt } = made
  const kept = { token, keyId, ...(expiresAt === null ? {} : { expiresAt }) }
  await saveCredential(run.env.configDir, contextName, {
    credential: kept,
    store: await storeOf(run.env.configDir, contextName),
  })
  // Only now, and by the old key itself: the new one may hold fewer rights.
  const oldEnds = await retire(run, old, overlapMs)
  if (run.out.machine) return run.out.value({ context: contextName, url, keyId, expiresAt, oldKeyId: old.id, oldEnds })
  const left = oldEnds === null ? 'is revoked' : `works until ${oldEnds}`
  run.notice(`${contextName} has a new key (${keyId}); the old one ${left}`)
}
