import type { Answer, CodeOf, Endpoint, Input } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Bus, NewEvent } from '../core/bus.ts'
import type { Db, Tx } from '../db/db.ts'
import type { Actor, Audit, AuditEntry } from './audit.ts'
import type { Caller, Origin } from './caller.ts'

/**
 * For whom a change is made: somebody who calls the API, a job on behalf of a user (`null`: of the panel) with what has
 * started it (`schedule nightly`), or the panel by itself.
 */
export type Principal =
  | { readonly kind: 'caller'; readonly caller: Caller | undefined; readonly origin: Origin }
  | { readonly kind: 'job'; readonly jobId: string; readonly onBehalfOf: string | null; readonly cause: string }
  | { readonly kind: 'panel' }

/** The panel by itself: at a first run, or in its upkeep. */
export const PANEL: Principal = { kind: 'panel' }

/** Every operation needs these beside its own dependencies. */
export interface OperationDeps {
  readonly db: Db
  readonly bus: Bus
  readonly audit: Audit
}

/** What an operation works with. */
export interface Work<E extends Endpoint, D> {
  readonly tx: Tx
  readonly deps: D
  /** Who calls; `undefined` for jobs, for the panel, and on public endpoints. */
  readonly caller: Caller | undefined
  /** The account behind it; `null` for the panel, and for jobs of nobody. */
  readonly userId: string | null
  /** Fails with a code that the endpoint declares; another code does not compile. */
  fail(code: CodeOf<E>, message: string, meta?: Record<string, unknown>): never
}

/** What an operation has done. The audit row and the events are written in its transaction; without any nothing has changed. */
export interface Outcome<E extends Endpoint> {
  readonly answer: Answer<E>
  readonly audit?: AuditEntry | undefined
  readonly events?: readonly NewEvent[]
}

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
  { run }: Operation<E, D>,
  { deps, principal, input }: { readonly deps: D; readonly principal: Principal; readonly input: Input<E> },
): Promise<Answer<E>> {
  const actor = actorOf(principal)
  const { caller } = actor
  const work = { tx, deps, caller, userId: caller?.userId ?? actor.userId ?? null, fail }
  const { answer, audit, events = [] } = await run(work, input)
  if (audit !== undefined) await deps.audit.record(tx, actor, audit)
  for (const event of events) await deps.bus.append(tx, event)
  return answer
}

/** As whom a principal stands in the audit log. */
export function actorOf(principal: Principal): Actor {
  if (principal.kind === 'caller') return principal
  if (principal.kind === 'panel') return { caller: undefined, origin: null }
  const { jobId, onBehalfOf, cause } = principal
  const job = { id: jobId, cause }
  return { caller: undefined, origin: null, job, ...(onBehalfOf === null ? {} : { userId: onBehalfOf }) }
}

function fail(code: CodeOf<Endpoint>, message: string, meta?: Record<string, unknown>): never {
  throw new PanelError(code, message, meta === undefined ? {} : { meta })
}
