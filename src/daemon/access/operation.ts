import type { Answer, CodeOf, Endpoint, Input } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Bus, NewEvent } from '../core/bus.ts'
import type { Db, Tx } from '../db/db.ts'
import type { Actor, Audit, AuditEntry } from './audit.ts'
import type { Caller, Origin } from './caller.ts'
import type { Holder } from './permit.ts'
import { rolePermissions } from './role-permissions.ts'

/**
 * For whom a change is made: somebody who calls the API, a job on behalf of a user (`null`: of the panel) with what has
 * started it (`schedule nightly`), or the panel by itself.
 */
export type Principal =
  | {
      readonly kind: 'caller'
      readonly caller: Caller | undefined
      readonly origin: Origin
      /** Whose account it is where nobody has signed in yet: of an invitation, a registration. */
      readonly userId?: string
    }
  | {
      readonly kind: 'job'
      readonly jobId: string
      readonly onBehalfOf: string | null
      readonly cause: string
      /** The rights of its user within what the API key may do by which the job was started; without it those of the roles. */
      readonly holder?: Holder
    }
  | { readonly kind: 'panel' }

/** The panel by itself: at a first run, or in its upkeep. */
export const PANEL: Principal = { kind: 'panel' }

/** Who has not signed in, from there; with the account that it is about, where there is one: of a sign-in, a mailed token. */
export function unauthenticated(origin: Origin, userId?: string): Principal {
  return { kind: 'caller', caller: undefined, origin, ...(userId === undefined ? {} : { userId }) }
}

/** The account behind a principal; `null` for strangers, for the panel, and for jobs of nobody. */
export function userIdOf(principal: Principal): string | null {
  const { caller, userId } = actorOf(principal)
  return caller?.userId ?? userId ?? null
}

/** Every operation needs these beside its own dependencies. */
export interface OperationDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
}

/** The audit row of a change. Action and resource are what the endpoint's contract says, unless they are given. */
export type AuditRow = Pick<AuditEntry, 'resourceId' | 'details'> & Partial<Pick<AuditEntry, 'action' | 'resource'>>

/** What a change leaves beside its rows; without any nothing has changed. */
export interface Done {
  readonly audit?: AuditRow | undefined
  readonly events?: readonly NewEvent[]
}

/** What an operation has done. The audit row and the events are written in its transaction, in this order. */
export interface Outcome<E extends Endpoint> extends Done {
  readonly answer: Answer<E>
}

/** What an operation works with. */
export interface Work<E extends Endpoint, D> {
  readonly tx: Tx
  readonly deps: D
  /** Who calls; `undefined` for jobs, for the panel, and on public endpoints. */
  readonly caller: Caller | undefined
  /** The account behind it; `null` for the panel, and for jobs of nobody. */
  readonly userId: string | null
  /**
   * Whose rights count where a change asks for more than its endpoint does: the caller's, or for a job those that its user has
   * by roles at this moment; the panel holds all of them.
   */
  readonly holder: Holder
  /** Writes the audit row and the events of one part of a change that has several; those of the outcome follow. */
  record(done: Done): Promise<void>
  /** Fails with a code that the endpoint declares; another code does not compile. */
  fail(code: CodeOf<E>, message: string, meta?: Record<string, unknown>): never
}

/** {@link Work} of any endpoint: for a change that several operations make. */
export type WorkOver<D> = Omit<Work<Endpoint, D>, 'fail'>

/**
 * A change with its rules, that a route, a first run, a job or a plugin carries out alike. Input is what the endpoint's schemas
 * have parsed; whether the principal may do it is decided before.
 */
export interface Operation<E extends Endpoint, D> {
  readonly endpoint: E
  readonly run: (work: Work<E, D>, input: Input<E>) => Promise<Outcome<E>>
}

/** Declares operations over these dependencies. */
export function operationsOver<D>() {
  return <E extends Endpoint>(
    endpoint: E,
    run: (work: Work<NoInfer<E>, D>, input: Input<NoInfer<E>>) => Promise<Outcome<NoInfer<E>>>,
  ): Operation<E, D> => ({ endpoint, run })
}

/** Carries an operation out within this transaction: change, audit row and events are one. */
export async function perform<E extends Endpoint, D extends OperationDeps>(
  tx: Tx,
  { endpoint, run }: Operation<E, D>,
  { deps, principal, input }: { readonly deps: D; readonly principal: Principal; readonly input: Input<E> },
): Promise<Answer<E>> {
  const work = await workOf(tx, { endpoint, deps, principal })
  const { answer, ...done } = await run(work, input)
  await work.record(done)
  return answer
}

/** What an operation of this endpoint works with. */
export async function workOf<E extends Endpoint, D extends OperationDeps>(
  tx: Tx,
  { endpoint, deps, principal }: { readonly endpoint: E; readonly deps: D; readonly principal: Principal },
): Promise<Work<E, D>> {
  const { caller } = actorOf(principal)
  const record = (done: Done): Promise<void> => recordChange(tx, { deps, principal, endpoint }, done)
  return { tx, deps, caller, userId: userIdOf(principal), holder: await holderOf(tx, principal), record, fail }
}

/** Carries an operation out in a transaction of its own. */
export function transact<E extends Endpoint, D extends OperationDeps>(
  operation: Operation<E, D>,
  request: { readonly deps: D; readonly principal: Principal; readonly input: Input<E> },
): Promise<Answer<E>> {
  return request.deps.db.write((tx) => perform(tx, operation, request))
}

/**
 * Writes the audit row and the events of a change that the endpoint names. For work that is more than one transaction; within
 * one an operation's outcome does it.
 */
export async function recordChange(
  tx: Tx,
  of: {
    readonly deps: Pick<OperationDeps, 'bus' | 'audit'>
    readonly principal: Principal
    readonly endpoint: Pick<Endpoint, 'id' | 'audit'>
  },
  { audit, events }: Done,
): Promise<void> {
  const entry = audit && entryOf(of.endpoint, audit)
  await recordFact(tx, of, { audit: entry, ...(events === undefined ? {} : { events }) })
}

/**
 * Writes the audit row and the events of what no endpoint names: a failed sign-in, a lockout, what the panel does by itself.
 * Everything that writes an audit row comes through here.
 */
export async function recordFact(
  tx: Tx,
  { deps, principal }: { readonly deps: Pick<OperationDeps, 'bus' | 'audit'>; readonly principal: Principal },
  { audit, events = [] }: { readonly audit?: AuditEntry | undefined; readonly events?: readonly NewEvent[] },
): Promise<void> {
  if (audit !== undefined) await deps.audit.record(tx, actorOf(principal), audit)
  for (const event of events) await deps.bus.append(tx, event)
}

/** A row with its action and its resource: one that the contract does not name is the first word of the action. */
function entryOf({ id, audit: rule }: Pick<Endpoint, 'id' | 'audit'>, given: AuditRow): AuditEntry {
  const declared = 'action' in rule ? rule : undefined
  const action = given.action ?? declared?.action
  if (action === undefined) throw new Error(`${id} leaves an audit row, and its contract names no action`)
  const resource = given.resource ?? declared?.resource ?? action.slice(0, action.indexOf('.'))
  return { action, resource, resourceId: given.resourceId, details: given.details }
}

/** Whose rights count for a principal. Who has not signed in holds nothing beyond what the endpoint lets everybody do. */
export async function holderOf(tx: Tx, principal: Principal): Promise<Holder> {
  if (principal.kind === 'caller') return principal.caller ?? { userId: '', permissions: new Set(), scope: null }
  if (principal.kind === 'job' && principal.holder !== undefined) return principal.holder
  const userId = principal.kind === 'job' ? principal.onBehalfOf : null
  if (userId === null) return { userId: '', permissions: new Set(['*']), scope: null }
  return { userId, permissions: await rolePermissions(tx.q, userId), scope: null }
}

/** As whom a principal stands in the audit log. */
function actorOf(principal: Principal): Actor {
  if (principal.kind === 'caller') return principal
  if (principal.kind === 'panel') return { caller: undefined, origin: null }
  const { jobId, onBehalfOf, cause } = principal
  const job = { id: jobId, cause }
  return { caller: undefined, origin: null, job, ...(onBehalfOf === null ? {} : { userId: onBehalfOf }) }
}

function fail(code: CodeOf<Endpoint>, message: string, meta?: Record<string, unknown>): never {
  throw new PanelError(code, message, meta === undefined ? {} : { meta })
}

/** The account of a change that belongs to one: the panel by itself has none. */
export function accountOf({ userId }: { readonly userId: string | null }): string {
  if (userId === null) throw new PanelError('UNAUTHENTICATED', 'Only an account can do this')
  return userId
}
