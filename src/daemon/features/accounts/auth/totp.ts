import { Secret, TOTP } from 'otpauth'
import type { Settings } from '../../../core/settings.ts'

const PERIOD_SECONDS = 30
/** Clocks of telephones may be off by one step. */
const WINDOW = 1

/** A fresh secret of 160 random bits, in base 32. */
export function newTotpSecret(): string {
  return new Secret({ size: 20 }).base32
}

/** What an authenticator reads from a QR code. */
export function totpUri(settings: Settings, email: string, secret: string): string {
  return totpOf(secret, settings.get('panel.name'), email).toString()
}

/** The time step that a code belongs to, `undefined` when it is none of those that are good now. */
export function stepOf(secret: string, code: string, nowMs: number): number | undefined {
  const delta = totpOf(secret).validate({ token: code, timestamp: nowMs, window: WINDOW })
  return delta === null ? undefined : Math.floor(nowMs / 1000 / PERIOD_SECONDS) + delta
}

function totpOf(secret: string, issuer = 'panel', label = 'account'): TOTP {
  return new TOTP({ issuer, label, secret, digits: 6, period: PERIOD_SECONDS, algorithm: 'SHA1' })
}
