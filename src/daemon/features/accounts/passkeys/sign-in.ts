import type * as api from '../../../../shared/api/passkeys.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { countedAddress } from '../../../../shared/platform/counted-address.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import type { Context } from '../../../http/route.ts'
import { accountById } from '../auth/accounts.ts'
import type { SignInDeps } from '../auth/deps.ts'
import { type Attempt, recordFailure, refuseLocked } from '../auth/lockout.ts'
import { signIn } from '../auth/sign-in.ts'
import { CHALLENGE_SECONDS, newChallenge, takeChallenge } from './challenges.ts'
import { Transports } from './own-passkeys.ts'
import { relyingParty } from './relying-party.ts'
import { webauthn } from './webauthn.ts'

type Response = Input<typeof api.signInByPasskey>['body']['response']

/** What a browser asks the authenticator with. */
export async function signInOptions({ db, publicUrl }: SignInDeps) {
  const { id: rpID } = relyingParty(publicUrl())
  const { challenge, timeout } = await (await webauthn()).generateAuthenticationOptions({
    rpID,
    challenge: Buffer.from(await newChallenge(db, null), 'base64url'),
    timeout: CHALLENGE_SECONDS * 1000,
    userVerification: 'required',
  })
  // The authenticator knows which passkeys it has for this panel: nobody learns whose they are.
  return {
    challenge,
    rpId: rpID,
    timeout: timeout ?? CHALLENGE_SECONDS * 1000,
    userVerification: 'required',
    allowCredentials: [],
  }
}

/** Signs in by a passkey: it is possession and a PIN or finger at once, so no code is asked for after it. */
export async function signInByPasskey(
  deps: SignInDeps,
  context: Pick<Context, 'origin' | 'setSession'>,
  { response, rememberMe }: Input<typeof api.signInByPasskey>['body'],
) {
  const { db, clock } = deps
  const passkey = await db.read
    .selectFrom('passkey')
    .selectAll()
    .where('credentialId', '=', response.id)
    .executeTakeFirst()
  const account = passkey === undefined ? undefined : await accountById(db.read, passkey.userId)
  // An unknown passkey counts for the address alone.
  const attempt = { account: account?.email ?? `passkey ${response.id.slice(0, 32)}`, origin: context.origin }
  return deps.turns.take(countedAddress(context.origin.ip), async () => {
    await refuseLocked(db.read, attempt, clock.nowMs())
    const counter = passkey === undefined ? undefined : await signedCounter(deps, passkey, response)
    if (passkey === undefined || account === undefined || counter === undefined) {
      throw await refused(deps, attempt, account?.id)
    }
    const first = async (tx: Tx): Promise<void> => {
      if (!(await count(tx, passkey.id, counter))) throw wrong()
    }
    return signIn(deps, context, { account, attempt, persistent: rememberMe, first })
  })
}

/** The counter that the authenticator has signed; `undefined` when anything about its answer is wrong. */
async function signedCounter(
  { db, publicUrl }: SignInDeps,
  passkey: { userId: string; credentialId: string; publicKey: Uint8Array; counter: number; transports: string },
  response: Response,
): Promise<{ readonly value: number; readonly backedUp: boolean } | undefined> {
  const { id: expectedRPID, origin: expectedOrigin } = relyingParty(publicUrl())
  const { userHandle, ...inner } = response.response
  if (typeof userHandle === 'string' && Buffer.from(userHandle, 'base64url').toString() !== passkey.userId)
    return undefined
  try {
    const { verified, authenticationInfo } = await (await webauthn()).verifyAuthenticationResponse({
      response: {
        id: response.id,
        rawId: response.rawId,
        type: response.type,
        clientExtensionResults: {},
        response: inner,
      },
      expectedChallenge: (challenge) => takeChallenge(db, challenge, null),
      expectedOrigin,
      expectedRPID,
      credential: {
        id: passkey.credentialId,
        publicKey: new Uint8Array(passkey.publicKey),
        counter: passkey.counter,
        transports: parseJson(Transports, passkey.transports),
      },
      requireUserVerification: true,
    })
    if (!verified) return undefined
    return { value: authenticationInfo.newCounter, backedUp: authenticationInfo.credentialBackedUp }
  } catch (error) {
    if (error instanceof PanelError) throw error
    return undefined // signature, challenge, origin or counter are wrong: one answer for all, the failure is counted
  }
}

/** Takes the counter; `false` when it is not beyond the stored one: a copy of the authenticator may have signed. */
async function count(tx: Tx, id: string, { value, backedUp }: { value: number; backedUp: boolean }): Promise<boolean> {
  const { numUpdatedRows } = await tx.q
    .updateTable('passkey')
    .set({ counter: value, backedUp: backedUp ? 1 : 0, lastUsedAt: tx.now, updatedAt: tx.now })
    .where('id', '=', id)
    .where((eb) => eb.or([eb('counter', '<', value), eb.and([eb('counter', '=', 0), eb(eb.val(value), '=', 0)])]))
    .executeTakeFirst()
  return numUpdatedRows > 0n
}

async function refused(deps: SignInDeps, attempt: Attempt, userId: string | undefined): Promise<PanelError> {
  await deps.db.write((tx) => recordFailure(deps, tx, { ...attempt, userId }))
  return wrong()
}

function wrong(): PanelError {
  return new PanelError(
    'INVALID_CREDENTIALS',
    'This passkey does not sign in here; ask for a new challenge and try again',
  )
}
