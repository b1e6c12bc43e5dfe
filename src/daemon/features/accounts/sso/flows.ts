import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { newId } from '../../../../shared/kernel/ids.ts'
import { type Clock, isoTime } from '../../../../shared/kernel/time.ts'
import { newSecret, sha256 } from '../../../core/secrets.ts'
import type { Db, Queries, Tx } from '../../../db/db.ts'

/** How long a browser may take to the provider and back. */
export const FLOW_SECONDS = 600
/** The cookie of the browser that was sent to a provider. */
export const BINDING_COOKIE = 'panel_sso'

/** Where a program waits for the browser. */
export interface Loopback {
  readonly port: number
  readonly state: string
  readonly codeChallenge: string
}

/** What a flow is for. */
export interface FlowRequest {
  readonly providerId: string
  /** Whose account is linked; `null`: somebody signs in. */
  readonly userId: string | null
  readonly returnTo: string | null
  readonly loopback: Loopback | null
}

/** A browser that has come back. */
export interface Flow extends FlowRequest {
  readonly id: string
  readonly stateHash: string | null
  readonly bindingHash: string | null
}

/** What is sent to the provider. All but the state are derived from the binding, which is stored nowhere but in the browser. */
export interface Sent {
  readonly binding: string
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** Begins a flow that a program hands to a browser; answers the ticket by which the browser takes it up. */
export async function beginByTicket(db: Db, clock: Clock, request: FlowRequest): Promise<string> {
  const ticket = newSecret()
  await db.write((tx) =>
    insertFlow(tx, clock, request, { ticketHash: sha256(ticket), stateHash: null, bindingHash: null }),
  )
  return ticket
}

/** Begins a flow of the browser that asks for it. */
export async function beginInBrowser(db: Db, clock: Clock, request: FlowRequest): Promise<Sent> {
  const sent = newSent()
  const hashes = { stateHash: sha256(sent.state), bindingHash: sha256(sent.binding), ticketHash: null }
  await db.write((tx) => insertFlow(tx, clock, request, hashes))
  return sent
}

/** Which provider a ticket leads to, while it is good. */
export async function findTicket(
  q: Queries,
  ticket: string,
  nowMs: number,
): Promise<{ providerId: string } | undefined> {
  return q
    .selectFrom('signInFlow')
    .select('providerId')
    .where('ticketHash', '=', sha256(ticket))
    .where('expiresAt', '>', isoTime(nowMs))
    .executeTakeFirst()
}

/** Uses a ticket up: from now on the flow is that of the browser that brought it. `undefined` when another one was quicker. */
export async function takeTicket(tx: Tx, ticket: string): Promise<Sent | undefined> {
  const sent = newSent()
  const { numUpdatedRows } = await tx.q
    .updateTable('signInFlow')
    .set({ ticketHash: null, stateHash: sha256(sent.state), bindingHash: sha256(sent.binding) })
    .where('ticketHash', '=', sha256(ticket))
    .where('expiresAt', '>', tx.now)
    .executeTakeFirst()
  return numUpdatedRows > 0n ? sent : undefined
}

/** The flow that a state belongs to, while it is good. */
export async function findFlow(q: Queries, state: string, nowMs: number): Promise<Flow | undefined> {
  const row = await q
    .selectFrom('signInFlow')
    .selectAll()
    .where('stateHash', '=', sha256(state))
    .where('expiresAt', '>', isoTime(nowMs))
    .executeTakeFirst()
  if (row === undefined) return undefined
  const { loopbackPort: port, loopbackState, codeChallenge, ...flow } = row
  if (port === null || loopbackState === null || codeChallenge === null) return { ...flow, loopback: null }
  return { ...flow, loopback: { port, state: loopbackState, codeChallenge } }
}

/** Ends a flow; `false` when another request has done so: each comes back once. */
export async function takeFlow(tx: Tx, id: string): Promise<boolean> {
  const { numDeletedRows } = await tx.q.deleteFrom('signInFlow').where('id', '=', id).executeTakeFirst()
  return numDeletedRows > 0n
}

/** Whether this is the browser that was sent. */
export function isSameBrowser(flow: Flow, binding: string | undefined): binding is string {
  if (binding === undefined || flow.bindingHash === null) return false
  return timingSafeEqual(Buffer.from(sha256(binding)), Buffer.from(flow.bindingHash))
}

/** What was sent to the provider from the browser with this binding. */
export function sentFrom(binding: string, state: string): Sent {
  return { binding, state, nonce: derive(binding, 'nonce'), verifier: derive(binding, 'verifier') }
}

/** The challenge of a verifier (RFC 7636, S256). */
export function challengeOf(verifier: string): string {
  return createHash('sha256').update(verifier).digest('base64url')
}

function newSent(): Sent {
  return sentFrom(newSecret(), newSecret())
}

function derive(binding: string, what: string): string {
  return createHmac('sha256', binding).update(`panel sign-in ${what}`).digest('base64url')
}

async function insertFlow(
  tx: Tx,
  clock: Clock,
  { loopback, ...request }: FlowRequest,
  hashes: { ticketHash: string | null; stateHash: string | null; bindingHash: string | null },
): Promise<void> {
  await tx.q.deleteFrom('signInFlow').where('expiresAt', '<=', tx.now).execute()
  await tx.q
    .insertInto('signInFlow')
    .values({
      id: newId('sif', clock),
      ...request,
      ...hashes,
      loopbackPort: loopback?.port ?? null,
      loopbackState: loopback?.state ?? null,
      codeChallenge: loopback?.codeChallenge ?? null,
      expiresAt: isoTime(Date.parse(tx.now) + FLOW_SECONDS * 1000),
      createdAt: tx.now,
    })
    .execute()
}
