import { z } from 'zod'
import type { ErrorCode } from './errors.ts'
import type { Permission } from './permissions.ts'
import { strictBody } from './strict-body.ts'

/** The verbs the API uses. */
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** The groups of endpoints; they are the tags of the OpenAPI document. */
export const TAGS = [
  'API Keys',
  'Admin',
  'Admin Events',
  'Alerts',
  'Auth',
  'Dashboard',
  'Internal',
  'Locations',
  'Migration',
  'Nests',
  'Nodes',
  'Plugins',
  'Providers',
  'Roles',
  'Servers',
  'Settings',
  'Setup',
  'Templates',
] as const
export type Tag = (typeof TAGS)[number]

/**
 * Who may call, decided before the body is read.
 * - `public`: anyone; `session`: whoever is signed in (by session or API key).
 * - `panel`: holds this permission panel-wide; `anyOf`: holds at least one of these panel-wide, or, with `orOnNode`, that
 *   permission on the node that the body names as `nodeId`.
 * - `server`: holds all of these on the server that the path names as `:serverId`.
 * - `serverByBody`: holds at least one of `possible` on that server to have the body read, and then all of `exact(body)`.
 * - `node`: holds this permission on the node that the path names as `:nodeId`.
 * - `agent`: the agent of a node, by the node's id and key in headers; no person and no API key.
 * With `orSelf` the user whom that path parameter names may call as well.
 */
export type Access =
  | 'public'
  | 'session'
  | 'agent'
  | { readonly panel: Permission; readonly orSelf?: string }
  | { readonly anyOf: readonly Permission[]; readonly orOnNode?: Permission }
  | { readonly server: readonly Permission[]; readonly orSelf?: string }
  | {
      readonly serverByBody: {
        readonly possible: readonly Permission[]
        readonly exact: (body: unknown) => readonly Permission[]
      }
    }
  | { readonly node: Permission }

type PathParam<P extends string> = P extends `${string}:${infer Rest}`
  ? Rest extends `${infer Name}/${infer Tail}`
    ? Name | PathParam<Tail>
    : Rest
  : never

/** The `:names` of a path and the keys of `params` are the same set; the compiler checks it. */
type ParamsFor<P extends string> = { [K in PathParam<P>]: z.ZodType }

/**
 * How often one user, or of a public endpoint one address, may call it. It holds at the default of the setting
 * `limits.authRequestsPerMinute` and grows with it.
 */
export interface EndpointLimit {
  readonly max: number
  readonly minutes: number
}

/**
 * What a write leaves in the audit log: the action's name, or why it leaves nothing. What was acted on is the action's first
 * word, unless `resource` names it.
 */
export type AuditRule = { readonly action: string; readonly resource?: string } | { readonly none: string }

interface Common<P extends string, Params, Query extends z.ZodType, Code extends ErrorCode> {
  /** `<group>.<verb>`, unique; the OpenAPI operationId and the label of metrics and logs. */
  readonly id: string
  readonly tag: Tag
  /** One line, imperative: it is also the help of the command that calls it. */
  readonly summary: string
  readonly path: P
  readonly access: Access
  readonly params: Params
  readonly query: Query
  readonly errors: readonly Code[]
}

/** One route of the JSON API: it drives routing, permission, validation, envelope, OpenAPI, client, command and tests. */
export interface Endpoint<
  P extends string = string,
  Params extends Record<string, z.ZodType> = Record<string, z.ZodType>,
  Query extends z.ZodType = z.ZodType,
  Body extends z.ZodType = z.ZodType,
  Response extends z.ZodType = z.ZodType,
  Code extends ErrorCode = ErrorCode,
  Paged extends boolean = boolean,
> extends Common<P, Params, Query, Code> {
  readonly kind: 'endpoint'
  readonly method: Method
  /** What it takes: fields that it does not name are refused, at any depth ({@link strictBody}). */
  readonly body: Body
  /** Fields, by dotted paths, that clients send although they mean nothing here. */
  readonly ignores: readonly string[]
  /** Why fields that it does not name are dropped and not refused: programs of other versions write this body. */
  readonly lenient: string | null
  /** The shape of `data`; fields that it does not name never leave the daemon. */
  readonly response: Response
  readonly status: 200 | 201 | 202 | 302
  /**
   * What goes out: `data` in the envelope, a `file` as it is made (an export), a `stream` of bytes
   * that exist ({@link StreamAnswer}: length, ranges, conditions, HEAD), or a `redirect` of a browser (302).
   */
  readonly answers: 'data' | 'file' | 'stream' | 'redirect'
  /** A list with `page` and `limit`: `data` is an array and the answer carries `pagination`. */
  readonly paged: Paged
  readonly audit: AuditRule
  /**
   * What the body is: JSON, one file in the field `file` of a form or as it stands ({@link Upload}), or bytes as they stand
   * ({@link ByteStream}).
   */
  readonly accepts: 'json' | 'multipart' | 'stream'
  /** The largest body in bytes. */
  readonly bodyLimit: number
  /** A limit of its own, beside those of all requests. */
  readonly limit: EndpointLimit | null
  /** May work for minutes before it answers: clients wait without a limit, and end the work by going away. */
  readonly long: boolean
  /** The same answer is given again while nothing that it was made of has changed; it has an ETag, and If-None-Match is answered by 304. */
  readonly cached: boolean
}

/** One Server-Sent-Events route: `events` names every event it can send and the shape of its data. */
export interface StreamEndpoint<
  P extends string = string,
  Params extends Record<string, z.ZodType> = Record<string, z.ZodType>,
  Query extends z.ZodType = z.ZodType,
  Events extends Record<string, z.ZodType> = Record<string, z.ZodType>,
  Code extends ErrorCode = ErrorCode,
> extends Common<P, Params, Query, Code> {
  readonly kind: 'stream'
  readonly events: Events
}

const none = z.undefined()

/** The `data` of an endpoint that has nothing to answer. */
export const NoData = z.null()

/** A file that is sent piece by piece while it is made; `fileName` is what a browser saves it as. */
export interface FileAnswer {
  readonly contentType: string
  readonly fileName: string
  readonly content: AsyncIterable<string | Uint8Array>
}

/** The `response` of an endpoint that `answers: 'file'`. */
export const FileAnswer = z.custom<FileAnswer>(
  (value) => typeof value === 'object' && value !== null && 'content' in value,
)

/** A part of a resource, in bytes. */
export interface ByteRange {
  readonly offset: number
  readonly length: number
}

/** Bytes that exist before they are asked for; the pipeline looks at conditions and ranges, and reads what is asked for. */
export interface StreamAnswer {
  readonly contentType: string
  /** What a browser saves it as. */
  readonly fileName: string
  /** `null`: not known before it has been read; then there are no ranges. */
  readonly size: number | null
  /** Changes with each change of the bytes; `null`: no conditions. */
  readonly etag: string | null
  readonly modifiedMs?: number
  /** Headers beside these. */
  readonly headers?: Readonly<Record<string, string>>
  /** Resolves when the first byte can come; not called for HEAD. Called once. */
  read(range: ByteRange | null): Promise<AsyncIterable<Uint8Array>>
}

/** The `response` of an endpoint that `answers: 'stream'`. */
export const StreamAnswer = z.custom<StreamAnswer>(
  (value) => typeof value === 'object' && value !== null && 'read' in value,
)

/** A body that is read as it arrives. Reading beyond the endpoint's `bodyLimit` fails with PAYLOAD_TOO_LARGE. */
export interface ByteStream {
  readonly contentType: string
  /** What the client has announced; `null`: it sends until it ends. */
  readonly length: number | null
  readonly content: AsyncIterable<Uint8Array>
  /** Ends it for whoever reads. */
  cancel(): void
}

/** The `body` of an endpoint that `accepts: 'stream'`. */
export const ByteStream = z.custom<ByteStream>(
  (value) => typeof value === 'object' && value !== null && 'content' in value,
  'must be bytes',
)

/** One file that is read as it arrives. Reading beyond the endpoint's `bodyLimit` fails with PAYLOAD_TOO_LARGE. */
export interface Upload {
  /** As the client wrote it: nothing that a path may be made of. */
  readonly fileName: string
  readonly contentType: string
  readonly content: AsyncIterable<Uint8Array>
  /** Texts of the form that come before the file. */
  readonly fields?: Readonly<Record<string, string>>
}

/** The `body` of an endpoint that `accepts: 'multipart'`. */
export const Upload = z.custom<Upload>(
  (value) => typeof value === 'object' && value !== null && 'content' in value,
  'must be one file in the field "file" of a multipart form',
)

/** The `response` of an endpoint that `answers: 'redirect'`. */
export const RedirectAnswer = z.object({ location: z.string() })

const BODY_LIMIT = 1024 * 1024

type ParamsField<P extends string, Params> = [PathParam<P>] extends [never] ? { params?: never } : { params: Params }

/**
 * Declares a route. Defaults: status 200, `data` in the envelope, no query, no body, not paged, 1 MiB of JSON as body; a GET leaves no audit record.
 * A write must say what it leaves (`audit`).
 */
export function defineEndpoint<
  const P extends `/${string}`,
  Params extends ParamsFor<P>,
  Response extends z.ZodType,
  const Code extends ErrorCode = never,
  Query extends z.ZodType = typeof none,
  Body extends z.ZodType = typeof none,
  const Paged extends boolean = false,
  const M extends Method = Method,
>(
  def: {
    id: string
    tag: Tag
    summary: string
    method: M
    path: P
    access: Access
    response: Response
    status?: 200 | 201 | 202 | 302
    answers?: 'data' | 'file' | 'stream' | 'redirect'
    errors?: readonly Code[]
    query?: Query
    body?: Body
    ignores?: readonly string[]
    lenient?: string
    paged?: Paged
    accepts?: 'json' | 'multipart' | 'stream'
    bodyLimit?: number
    limit?: EndpointLimit
    long?: boolean
    cached?: M extends 'GET' ? boolean : false
  } & ParamsField<P, Params> &
    (M extends 'GET' ? { audit?: AuditRule } : { audit: AuditRule }),
): Endpoint<P, Params, Query, Body, Response, Code, Paged> {
  const made = {
    kind: 'endpoint',
    status: 200,
    answers: 'data',
    errors: [],
    params: {},
    query: none,
    body: none,
    ignores: [],
    lenient: null,
    paged: false,
    audit: { none: 'reads nothing but' },
    accepts: 'json',
    bodyLimit: BODY_LIMIT,
    limit: null,
    long: false,
    cached: false,
    ...def,
  }
  const { body } = def
  if (body !== undefined && def.lenient === undefined) madeLater(made, 'body', () => strictBody(body))
  return made as never // the defaults stand exactly where the type parameters have theirs
}

/** A part that is made when it is first asked for: who loads an endpoint has loaded the contracts of many. */
function madeLater(endpoint: object, part: 'body' | 'query', make: () => z.ZodType): void {
  let made: z.ZodType | undefined
  const get = (): z.ZodType => {
    made ??= make()
    return made
  }
  Object.defineProperty(endpoint, part, { get, enumerable: true })
}

/**
 * The same, and fields of the query that it does not name are refused as those of a body are, also where it has no query at all: whoever
 * asks for what there is not learns that, and does not take the answer for it.
 */
export const defineExactEndpoint: typeof defineEndpoint = (def) => {
  const made = defineEndpoint(def)
  madeLater(made, 'query', () => (def.query === undefined ? z.strictObject({}) : strictBody(def.query)))
  return made // what the query has is the same; only what else it may have is said
}

/** Declares an event stream. Every stream may also send `connected` and `error`. */
export function defineStream<
  const P extends `/${string}`,
  Params extends ParamsFor<P>,
  Events extends Record<string, z.ZodType>,
  const Code extends ErrorCode = never,
  Query extends z.ZodType = typeof none,
>(
  def: {
    id: string
    tag: Tag
    summary: string
    path: P
    access: Access
    events: Events
    errors?: readonly Code[]
    query?: Query
  } & ParamsField<P, Params>,
): StreamEndpoint<P, Params, Query, Events, Code> {
  return { kind: 'stream', errors: [], params: {}, query: none, ...def } as never // as in defineEndpoint
}

/** What a handler receives: parsed and typed. */
export interface Input<E extends Endpoint | StreamEndpoint> {
  readonly params: { [K in keyof E['params']]: z.output<E['params'][K]> }
  readonly query: z.output<E['query']>
  readonly body: E extends Endpoint ? z.output<E['body']> : undefined
}

/** A part that may be left out altogether is optional: one that is undefined, or whose fields are all optional. */
type Part<K extends string, V> = [V] extends [undefined]
  ? unknown
  : undefined extends V
    ? { [X in K]?: V }
    : Record<never, never> extends V
      ? { [X in K]?: V }
      : { [X in K]: V }

/** What a caller passes: only the parts that the endpoint has. */
export type CallInput<E extends Endpoint | StreamEndpoint> = ([keyof E['params']] extends [never]
  ? unknown
  : { params: { [K in keyof E['params']]: z.input<E['params'][K]> } }) &
  Part<'query', z.input<E['query']>> &
  (E extends Endpoint ? Part<'body', z.input<E['body']>> : unknown)

/** The `data` of an endpoint's answer. */
export type Data<E extends Endpoint> = z.output<E['response']>

/** A row of a paged endpoint's answer. */
export type Row<E extends Endpoint> = Data<E> extends readonly (infer R)[] ? R : never

/** What a handler returns: the data, or for a paged endpoint one page of it with the number of all rows. */
export type Answer<E extends Endpoint> = E['paged'] extends true
  ? { readonly items: z.input<E['response']>; readonly total: number }
  : z.input<E['response']>

/** The codes that an endpoint declares beside those that every endpoint has. */
export type CodeOf<E extends Endpoint | StreamEndpoint> = E['errors'][number]

/** Whether the part (query, body) is declared at all. */
export function isDeclared(schema: z.ZodType): boolean {
  return !(schema instanceof z.ZodUndefined)
}
