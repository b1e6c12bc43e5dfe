import type { Answer, CodeOf, Endpoint, Input, StreamEndpoint } from '../../shared/kernel/contract.ts'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { Caller, Origin } from '../access/caller.ts'
import type { Principal } from '../access/operation.ts'
import type { Holder } from '../access/permit.ts'
import type { Log } from '../core/log.ts'
import type { WrittenPage } from '../core/written-items.ts'
import type { Reading } from './answer-cache.ts'
import type { SseConnection } from './sse.ts'
import type { Look } from './transfer-rights.ts'

/** What a handler gets beside its input. */
export interface Context<E extends Endpoint | StreamEndpoint = Endpoint> {
  readonly caller: Caller | undefined
  /** The node whose agent calls; of endpoints for agents alone. */
  readonly nodeId: string | undefined
  /** What a write may replace, by If-Match and If-None-Match; throws a VALIDATION_ERROR for what they must not be. */
  writes(): { readonly ifMatch: string | null; readonly ifNone: boolean }
  readonly origin: Origin
  /** The two above, for operations. */
  readonly principal: Principal
  readonly log: Log
  /** Aborts when the client has gone away or the daemon stops. */
  readonly signal: AbortSignal
  /** Ends a request that sends or takes bytes when this refuses, which is looked at whenever rights may have changed. */
  keepWhile(look: Look): void
  /** Fails with a code that this endpoint declares; another code does not compile. */
  fail(code: CodeOf<E>, message: string, meta?: Record<string, unknown>): never
  /** Who calls a public endpoint that is also for people who are signed in; asked for only where that matters. */
  identify(): Promise<Caller | undefined>
  /** The value of a cookie of the request. */
  cookie(name: string): string | undefined
  /** Sets a cookie (`maxAgeSeconds` absent: until the browser closes), or removes it. */
  setCookie(name: string, value: string | null, maxAgeSeconds?: number): void
  /** Sets the session cookie (`maxAgeSeconds` absent: until the browser closes), or removes it. */
  setSession(token: string | null, maxAgeSeconds?: number): void
}

/** A context with a caller: every endpoint that is not public. */
export function callerOf(context: Pick<Context, 'caller'>): Caller {
  if (context.caller === undefined) throw new PanelError('UNAUTHENTICATED', 'Sign in first')
  return context.caller
}

/** The work of an endpoint: parsed input in, data out. It never parses, checks a permission or builds an envelope. */
export type Handler<E extends Endpoint> = (input: Input<E>, context: Context<E>) => Promise<Answer<E>>

/**
 * The work of a stream: everything that can refuse (404, 423, limits) happens before `open()`, which sends the headers;
 * it returns when the stream is over.
 */
export type StreamHandler<E extends StreamEndpoint> = (
  input: Input<E>,
  context: Context<E> & { readonly lastEventId: string | undefined; open(kind: StreamKind): SseConnection },
) => Promise<void>

/** What the limits of streams count by: a server's id where the stream is about one. */
export interface StreamKind {
  readonly name: string
  readonly serverId?: string
  /** Bytes that may wait unsent before the stream is ended as a slow consumer; `null`: the handler paces itself. */
  readonly maxUnsentBytes: number | null
}

/** What a handler of a cached answer gets beside its input: nothing else may make a difference to the answer. */
export interface CachedContext<E extends Endpoint = Endpoint> extends Reading {
  /** Who asks, without the credential by which they do; `undefined` at public endpoints. */
  readonly holder: Holder | undefined
  /** Fails with a code that this endpoint declares; another code does not compile. */
  fail(code: CodeOf<E>, message: string, meta?: Record<string, unknown>): never
}

/** The work of an endpoint whose answers are cached: it takes all that changes from its context. */
export type CachedHandler<E extends Endpoint> = (
  input: Input<E>,
  context: CachedContext<E>,
) => Promise<Answer<E> | (E['paged'] extends true ? WrittenPage : never)>

/** An endpoint whose answers are cached, with its handler. */
export interface CachedRoute {
  readonly endpoint: Endpoint
  readonly handleCached: CachedHandler<Endpoint>
}

/** An endpoint with its handler. */
export type Route = PlainRoute | CachedRoute

/** An endpoint whose handler answers each request anew. */
export interface PlainRoute {
  readonly endpoint: Endpoint
  readonly handle: Handler<Endpoint>
  /** Makes a body that is written in another format into one of the contract, before it is parsed; throws a PanelError. */
  readonly convert?: (body: unknown) => unknown
}

/** A stream with its handler. */
export interface StreamRoute {
  readonly stream: StreamEndpoint
  readonly handle: StreamHandler<StreamEndpoint>
}

/** Binds a handler to its endpoint; input, answer and codes are checked against the contract by the compiler. */
export function route<E extends Endpoint>(endpoint: E, handle: Handler<NoInfer<E>>): PlainRoute {
  return { endpoint, handle: handle as never } // http.ts calls it only with input that this endpoint's schemas parsed
}

/** Binds a handler to an endpoint whose answers are cached. */
export function cachedRoute<E extends Endpoint>(endpoint: E, handle: CachedHandler<NoInfer<E>>): CachedRoute {
  return { endpoint, handleCached: handle as never } // as above
}

/** The holder of a cached answer's rights, at every endpoint that is not public. */
export function holderOf({ holder }: Pick<CachedContext, 'holder'>): Holder {
  if (holder === undefined) throw new PanelError('UNAUTHENTICATED', 'Sign in first')
  return holder
}

/** Binds a handler to its stream. */
export function streamRoute<E extends StreamEndpoint>(stream: E, handle: StreamHandler<NoInfer<E>>): StreamRoute {
  return { stream, handle: handle as never } // as above
}
