import { z } from 'zod'
import * as api from '../../../../shared/api/passkeys.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError, PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { changes } from '../../../access/audit.ts'
import { operationsOver, transact } from '../../../access/operation.ts'
import { type Queries, type Tx, uniqueViolation } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { countRows, offsetOf } from '../../../db/paging.ts'
import type { Context } from '../../../http/route.ts'
import { displayName } from '../auth/accounts.ts'
import type { SignInDeps } from '../auth/deps.ts'
import { ensureWayLeft } from '../auth/sign-in-methods.ts'
import { wholeUser } from '../auth/whole-user.ts'
import { CHALLENGE_SECONDS, newChallenge, takeChallenge } from './challenges.ts'
import { relyingParty } from './relying-party.ts'
import { webauthn } from './webauthn.ts'

/** One account has at most so many. */
const MOST = 50
export const Transports = z.array(z.string())

/** One page of the passkeys of the caller, newest first. */
export async function listPasskeys(
  deps: SignInDeps,
  { query }: Input<typeof api.listPasskeys>,
  context: Context<typeof api.listPasskeys>,
) {
  const { db } = deps
  const own = db.read.selectFrom('passkey').where('userId', '=', wholeUser(context).userId)
  const total = await countRows(db.read, own)
  const rows = await own.selectAll().orderBy('id', 'desc').limit(query.limit).offset(offsetOf(query)).execute()
  return { items: rows.map(shown), total }
}

/** Adds the passkey that an authenticator has made. */
export async function verifyPasskey(
  deps: SignInDeps,
  input: Input<typeof api.verifyPasskey>,
  context: Context<typeof api.verifyPasskey>,
) {
  const { principal } = context
  const made = await verified(deps, wholeUser(context).userId, input.body.response)
  return transact(addPasskey(made), { deps, principal, input })
}

const operation = operationsOver<SignInDeps>()

/** What the authenticator has answered is verified before the transaction. */
const addPasskey = (made: Awaited<ReturnType<typeof verified>>) =>
  operation(api.verifyPasskey, async (work, { body }) => {
    const { tx, deps } = work
    const { userId } = wholeUser(work)
    await refuseTooMany(tx.q, userId)
    const id = newId('psk', deps.clock)
    const name = body.name ?? null
    await insert(tx, { id, userId, name, made })
    const row = await tx.q.selectFrom('passkey').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
    return { answer: shown(row), audit: { resourceId: userId, details: { passkeyId: id, name } } }
  })

export const renamePasskey = operation(api.renamePasskey, async (work, { params: { passkeyId }, body: { name } }) => {
  const { tx } = work
  const { userId } = wholeUser(work)
  const before = await ownPasskey(tx.q, userId, passkeyId)
  const changed = changes({ name: before.name }, { name })
  if (changed === undefined) return { answer: shown(before) }
  await tx.q.updateTable('passkey').set({ name, updatedAt: tx.now }).where('id', '=', before.id).execute()
  const details = { passkeyId: before.id, ...changed }
  return { answer: shown({ ...before, name }), audit: { resourceId: userId, details } }
})

export const deletePasskey = operation(api.deletePasskey, async (work, { params: { passkeyId } }) => {
  const { tx } = work
  const { userId } = wholeUser(work)
  const { id, name } = await ownPasskey(tx.q, userId, passkeyId)
  await tx.q.deleteFrom('passkey').where('id', '=', id).execute()
  await ensureWayLeft(tx, userId)
  return { answer: { status: true as const }, audit: { resourceId: userId, details: { passkeyId: id, name } } }
})

type PasskeyRequest = NonNullable<Input<typeof api.beginPasskey>['body']>

/** What a browser has a new passkey made with. */
export async function beginPasskey(deps: SignInDeps, userId: string, { authenticatorAttachment }: PasskeyRequest) {
  const { db, settings } = deps
  const { id: rpID } = relyingParty(deps.publicUrl())
  const user = await db.read
    .selectFrom('user')
    .select(['username', 'firstName', 'lastName'])
    .where('id', '=', userId)
    .executeTakeFirstOrThrow()
  await refuseTooMany(db.read, userId)
  const known = await db.read
    .selectFrom('passkey')
    .select(['credentialId', 'transports'])
    .where('userId', '=', userId)
    .execute()
  const options = await (await webauthn()).generateRegistrationOptions({
    rpName: settings.get('panel.name'),
    rpID,
    userName: user.username,
    userDisplayName: displayName(user),
    userID: new TextEncoder().encode(userId),
    challenge: Buffer.from(await newChallenge(db, userId), 'base64url'),
    timeout: CHALLENGE_SECONDS * 1000,
    attestationType: 'none',
    excludeCredentials: known.map(({ credentialId, transports }) => ({
      id: credentialId,
      transports: parseJson(Transports, transports),
    })),
    authenticatorSelection: {
      residentKey: 'required',
      userVerification: 'required',
      ...(authenticatorAttachment === undefined ? {} : { authenticatorAttachment }),
    },
  })
  const { pubKeyCredParams, excludeCredentials, authenticatorSelection, attestation, timeout, ...rest } = options
  const selection = {
    residentKey: 'required',
    requireResidentKey: true,
    userVerification: 'required',
    ...(authenticatorSelection?.authenticatorAttachment === undefined
      ? {}
      : { authenticatorAttachment: authenticatorSelection.authenticatorAttachment }),
  }
  return {
    ...rest,
    rp: { name: rest.rp.name, id: rpID },
    pubKeyCredParams: [...pubKeyCredParams],
    timeout: timeout ?? CHALLENGE_SECONDS * 1000,
    attestation: attestation ?? 'none',
    excludeCredentials: (excludeCredentials ?? []).map((one) => ({ ...one, type: 'public-key' as const })),
    authenticatorSelection: selection,
  }
}

type Made = Awaited<ReturnType<typeof verified>>

/** What an authenticator has made for this account, checked; everything that is wrong with it is a problem of `body.response`. */
async function verified(
  { db, publicUrl }: SignInDeps,
  userId: string,
  response: Input<typeof api.verifyPasskey>['body']['response'],
) {
  const { id: expectedRPID, origin: expectedOrigin } = relyingParty(publicUrl())
  const { transports, ...inner } = response.response
  try {
    const result = await (await webauthn()).verifyRegistrationResponse({
      response: {
        id: response.id,
        rawId: response.rawId,
        type: response.type,
        clientExtensionResults: {},
        response: { ...inner, ...(transports === undefined ? {} : { transports }) },
      },
      expectedChallenge: (challenge) => takeChallenge(db, challenge, userId),
      expectedOrigin,
      expectedRPID,
      requireUserVerification: true,
    })
    if (result.verified) return { ...result.registrationInfo, transports: transports ?? [] }
  } catch (error) {
    if (error instanceof PanelError) throw error
    throw fieldError('body.response', `is no passkey for this panel: ${messageOf(error)}`)
  }
  throw fieldError('body.response', 'is no passkey for this panel')
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message.replace(/\s+/g, ' ').slice(0, 200) : 'it cannot be read'
}

async function insert(
  tx: Tx,
  { id, userId, name, made }: { id: string; userId: string; name: string | null; made: Made },
): Promise<void> {
  const { credential, credentialDeviceType, credentialBackedUp, aaguid, transports } = made
  try {
    await tx.q
      .insertInto('passkey')
      .values({
        id,
        userId,
        credentialId: credential.id,
        publicKey: credential.publicKey,
        counter: credential.counter,
        name,
        deviceType: credentialDeviceType,
        backedUp: credentialBackedUp ? 1 : 0,
        transports: JSON.stringify(transports),
        aaguid,
        lastUsedAt: null,
        createdAt: tx.now,
        updatedAt: tx.now,
      })
      .execute()
  } catch (error) {
    if (uniqueViolation(error) === undefined) throw error
    throw new PanelError('CONFLICT', 'This passkey is known here already')
  }
}

async function refuseTooMany(q: Queries, userId: string): Promise<void> {
  const { count } = await q
    .selectFrom('passkey')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('userId', '=', userId)
    .executeTakeFirstOrThrow()
  if (Number(count) >= MOST) throw new PanelError('CONFLICT', `You have ${MOST} passkeys already; remove one first`)
}

async function ownPasskey(q: Queries, userId: string, id: string) {
  const row = await q
    .selectFrom('passkey')
    .selectAll()
    .where('id', '=', id)
    .where('userId', '=', userId)
    .executeTakeFirst()
  if (row === undefined) throw new PanelError('NOT_FOUND', 'You have no such passkey')
  return row
}

type PasskeyRow = Awaited<ReturnType<typeof ownPasskey>>

function shown({ credentialId, backedUp, transports, publicKey: _, counter: __, ...row }: PasskeyRow): api.Passkey {
  return { ...row, credentialID: credentialId, backedUp: backedUp === 1, transports: parseJson(Transports, transports) }
}
