import { createCipheriv, createDecipheriv, createHmac, hash, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto'
import { PanelError } from '../../shared/kernel/errors.ts'
import type { IdPrefix } from '../../shared/kernel/ids.ts'

/** The kinds of token: API key, node key, session. */
export type TokenKind = 'pak' | 'pnk' | 'pst'

const ID_OF: Record<TokenKind, IdPrefix> = { pak: 'key', pnk: 'nky', pst: 'ses' }
const TOKEN = /^(pak|pnk|pst)_([0-9a-z]{26})_([A-Za-z0-9_-]{43})$/

/** A fresh 256-bit secret as 43 characters. */
export function newSecret(): string {
  return randomBytes(32).toString('base64url')
}

/** The token `<kind>_<suffix of the id>_<secret>` of the row with this id. */
export function formatToken(kind: TokenKind, id: string, secret: string): string {
  return `${kind}_${id.slice(id.indexOf('_') + 1)}_${secret}`
}

/** The parts of a well-formed token: its kind, the id of its row, its secret. */
export function parseToken(token: string): { kind: TokenKind; id: string; secret: string } | undefined {
  const match = TOKEN.exec(token)
  if (match === null) return undefined
  const [, kind, suffix, secret] = match
  if (kind !== 'pak' && kind !== 'pnk' && kind !== 'pst') return undefined
  return { kind, id: `${ID_OF[kind]}_${suffix}`, secret: secret ?? '' }
}

/** SHA-256 in hex: enough for secrets of 256 random bits, and for looking things up. */
export function sha256(text: string): string {
  return hash('sha256', text, 'hex') // in one step: at each request, a third of what createHash costs
}

/** Whether the secret is the one behind the stored hash; takes the same time either way. */
export function secretMatches(secret: string, hash: string): boolean {
  return timingSafeEqual(Buffer.from(sha256(secret)), Buffer.from(hash.padEnd(64, ' ').slice(0, 64)))
}

/** Why this is not a key for secrets at rest (32 bytes as base64 or hex); `undefined` when it is one. */
export function credentialKeyProblem(key: string): string | undefined {
  return keyBytes(key).length === 32 ? undefined : 'must be 32 bytes as base64 or hex'
}

/** Seals with a key that is derived from text which is itself never stored. */
export function sealBy(passphrase: string, text: string): string {
  return sealWith(derive(passphrase), text)
}

/** Opens what {@link sealBy} sealed with the same text. */
export function openBy(passphrase: string, sealed: string): string {
  return openWith(derive(passphrase), sealed)
}

/** A MAC in hex by which text is known again; without the passphrase, which is itself never stored, nobody can try guesses. */
export function macBy(passphrase: string, text: string): string {
  return createHmac('sha256', derive(passphrase, 'known body')).update(text).digest('hex')
}

/**
 * Seals secrets at rest with the installation's key (AES-256-GCM), bound to the place they stand in, so
 * that a sealed text that was copied to another row or column does not open.
 */
export interface Vault {
  /** Whether there is a key; without one `seal` and `open` fail with CREDENTIAL_ENCRYPTION_KEY_MISSING. */
  readonly hasKey: boolean
  /** `place` names what the secret belongs to, such as `database_host.password dbh_…`. */
  seal(place: string, secret: string): string
  /** Fails with INTERNAL_ERROR when the text was sealed by another key or for another place. */
  open(place: string, sealed: string): string
}

/** The vault of a key as {@link credentialKeyProblem} accepts it. */
export function createVault(credentialKey: string | undefined): Vault {
  const keyFor = (place: string): Buffer => {
    if (credentialKey === undefined) {
      throw new PanelError(
        'CREDENTIAL_ENCRYPTION_KEY_MISSING',
        'Secrets cannot be stored or read without a key: set PANEL_CREDENTIAL_KEY to 32 random bytes (base64) and restart',
      )
    }
    return Buffer.from(hkdfSync('sha256', keyBytes(credentialKey), 'panel', `secret at rest: ${place}`, 32))
  }
  return {
    hasKey: credentialKey !== undefined,
    seal: (place, secret) => sealWith(keyFor(place), secret),
    open: (place, sealed) => openWith(keyFor(place), sealed),
  }
}

function keyBytes(key: string): Buffer {
  return /^[0-9a-f]{64}$/i.test(key) ? Buffer.from(key, 'hex') : Buffer.from(key, 'base64')
}

function derive(passphrase: string, purpose = 'sealed answer'): Buffer {
  return Buffer.from(hkdfSync('sha256', passphrase, 'panel', purpose, 32))
}

function sealWith(key: Buffer, text: string): string {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', key, nonce)
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64')
}

function openWith(key: Buffer, sealed: string): string {
  const bytes = Buffer.from(sealed, 'base64')
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12))
  decipher.setAuthTag(bytes.subarray(12, 28))
  return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
}
