import type { IsoTime } from '../../shared/kernel/time.ts'

/** Where a request comes from; stands in audit rows. */
export interface Origin {
  readonly ip: string
  readonly userAgent: string | null
  readonly requestId: string
}

/**
 * Who is calling: a person by session or a script by API key. `permissions` is the effective set, panel-wide (for a key
 * the part of its owner's that it carries). Nodes are no callers: they have entrances of their own.
 */
export interface Caller {
  readonly kind: 'session' | 'apiKey'
  /** The id of the session or key. */
  readonly credentialId: string
  readonly userId: string
  readonly permissions: ReadonlySet<string>
  /** What a key may do at all, also as the owner of a server; `null`: whatever its user may. */
  readonly scope: ReadonlySet<string> | null
  readonly expiresAt: IsoTime | null
  readonly rateLimit: { readonly max: number; readonly windowMs: number } | null
}

/** Why a credential is not accepted; `expired` is distinct from unknown, revoked, disabled or banned. */
export type Refusal = 'unknown' | 'expired'

/**
 * Turns a token into a caller. Answers are cached until `forget`, which every change of a user, role, session or key
 * calls after its commit, so that a revocation holds at once; listeners re-check what they have open.
 */
export interface Credentials {
  resolve(token: string): Promise<Caller | Refusal>
  /** The caller anew by the same credential, for open streams. */
  recheck(caller: Caller): Promise<Caller | Refusal>
  /** Something about credentials has changed: nothing cached holds any longer. */
  changed(): void
  onChange(listener: () => void): () => void
}
