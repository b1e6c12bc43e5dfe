import { randomBytes } from 'node:crypto'
import type { z } from 'zod'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { StoreAnswer, StoreOperation, StoreRequest } from '../../shared/protocol/backups.ts'
import type { ObjectStore } from '../object-store/object-store.ts'

type One = z.infer<typeof StoreAnswer>['answers'][number]

/** Whose objects of which store an agent may ask for, and for how long. */
export interface StoreGrant {
  readonly nodeId: string
  readonly storeId: string
  /** Of whose backups: a server, which may be gone. */
  readonly ownerId: string
  /** `read`: nothing can be written or removed. */
  readonly mode: 'read' | 'write'
  /** The ticket ends with it. */
  readonly signal: AbortSignal
}

/** A ticket that is good until it is closed. */
export interface OpenTicket {
  readonly ticket: string
  close(): void
}

interface StoreTicketsDeps {
  /** The store of this id, with its credentials as they are now. Fails where there is none, or it is no object store. */
  readonly objects: (storeId: string) => Promise<ObjectStore>
}

/** Operations of one request that are asked of the store at the same time. */
const AT_ONCE = 8

/**
 * What agents ask of object stores. The credentials stay here: an agent gets requests that are signed for one object each, below
 * `servers/<ownerId>/` of one store, as long as the work runs that the ticket was made for (ADR 58).
 */
export class StoreTickets {
  readonly #deps: StoreTicketsDeps
  readonly #open = new Map<string, StoreGrant>()

  constructor(deps: StoreTicketsDeps) {
    this.#deps = deps
  }

  /** A new ticket. Closed by whoever has opened it, or when the signal of its work aborts. */
  open(grant: StoreGrant): OpenTicket {
    const ticket = randomBytes(32).toString('base64url')
    const close = (): void => {
      this.#open.delete(ticket)
      grant.signal.removeEventListener('abort', close)
    }
    if (!grant.signal.aborted) {
      this.#open.set(ticket, grant)
      grant.signal.addEventListener('abort', close)
    }
    return { ticket, close }
  }

  /** Answers a node's operations in their order. NOT_FOUND for a ticket that is not its to use now, PERMISSION_DENIED for a write with one for reading. */
  async ask(nodeId: string, ticket: string, { operations }: z.infer<typeof StoreRequest>): Promise<StoreAnswer> {
    const grant = this.#open.get(ticket)
    if (grant === undefined || grant.nodeId !== nodeId) {
      throw new PanelError('NOT_FOUND', 'There is no such ticket for this node: it is unknown, or its work has ended')
    }
    if (grant.mode === 'read' && operations.some(({ op }) => !READS.has(op))) {
      throw new PanelError('PERMISSION_DENIED', 'This ticket is for reading')
    }
    const store = await this.#deps.objects(grant.storeId)
    const answers: One[] = []
    for (let from = 0; from < operations.length; from += AT_ONCE) {
      const some = operations.slice(from, from + AT_ONCE)
      answers.push(...(await Promise.all(some.map((operation) => carryOut(store, grant, operation)))))
    }
    return { answers }
  }
}

const READS: ReadonlySet<StoreOperation['op']> = new Set(['get', 'head', 'list'])

/** Where the objects of an owner lie, relative to the prefix of the store. */
export function ownerPrefix(ownerId: string): string {
  return `servers/${ownerId}/`
}

async function carryOut(store: ObjectStore, { ownerId, signal }: StoreGrant, asked: StoreOperation): Promise<One> {
  const base = ownerPrefix(ownerId)
  if (asked.op === 'list') {
    const after = asked.after === null ? null : base + asked.after
    const { objects, next } = await store.list({ prefix: base + asked.prefix, after }, signal)
    return {
      objects: objects.map(({ key, bytes }) => ({ key: key.slice(base.length), bytes })),
      next: next === null ? null : next.slice(base.length),
    }
  }
  if (asked.op === 'sweep') {
    for (const upload of await store.unfinished(base, signal)) await store.abort(upload, signal)
    return {}
  }
  const key = base + asked.key
  switch (asked.op) {
    case 'put':
    case 'get':
    case 'part':
      return { request: await store.sign({ ...asked, key }) }
    case 'head':
      return { bytes: await store.head(key, signal) }
    case 'delete':
      await store.delete([key], signal)
      return {}
    case 'begin':
      return { uploadId: await store.begin(key, signal) }
    case 'complete':
      await store.complete({ key, uploadId: asked.uploadId }, asked.parts, signal)
      return {}
    case 'abort':
      await store.abort({ key, uploadId: asked.uploadId }, signal)
      return {}
    default:
      throw new Error(`no such operation: ${JSON.stringify(asked satisfies never)}`)
  }
}
