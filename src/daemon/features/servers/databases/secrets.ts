import { randomBytes } from 'node:crypto'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { HostAddress } from './driver.ts'
import { HostFailure } from './host-failure.ts'
import type { HostRow } from './host-rows.ts'

/** 80 random bits in small letters and digits: a name on a host that nobody can guess. */
export function newName(): string {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567'
  return `srv_${[...randomBytes(16)].map((byte) => letters[byte & 31]).join('')}`
}

/** More than 180 random bits, with letters of both cases, digits and a `-` or `_`, which some hosts insist on. */
export function newPassword(): string {
  for (;;) {
    const password = randomBytes(24).toString('base64url')
    if (/^[A-Za-z]/.test(password) && [/[A-Z]/, /[a-z]/, /\d/, /[-_]/].every((kind) => kind.test(password)))
      return password
  }
}

/** The place of a host's password in the vault. */
export function hostPlace(hostId: string): string {
  return `database_host.password ${hostId}`
}

/** The place of a database's password in the vault. */
export function databasePlace(databaseId: string): string {
  return `server_database.password ${databaseId}`
}

/** The host with its password in clear. Fails with CREDENTIAL_ENCRYPTION_KEY_MISSING, or with `key` when another one has sealed it. */
export function addressOf(vault: Vault, row: HostRow): HostAddress {
  const { engine, host, port, username, tls, caCertificate } = row
  return { engine, host, port, username, tls, caCertificate, password: opened(vault, hostPlace(row.id), row.password) }
}

/** The secret behind a sealed text; fails like {@link addressOf}. */
export function opened(vault: Vault, place: string, sealed: string): string {
  try {
    return vault.open(place, sealed)
  } catch (error) {
    if (error instanceof PanelError) throw error
    const message = 'its stored password was sealed by another key; set the password again, or bring the key back'
    throw new HostFailure('key', message, { undone: true })
  }
}
