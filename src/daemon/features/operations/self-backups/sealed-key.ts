import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, scrypt } from 'node:crypto'
import { z } from 'zod'
import { PanelError } from '../../../../shared/kernel/errors.ts'

/** What scrypt takes: 128 MiB and about half a second for each guess. */
const COST = { N: 131_072, r: 8, p: 1 } as const
const MEMORY = 192 * 1024 * 1024
/** Binds what is sealed to what it is for. */
const PURPOSE = Buffer.from('panel self-backup credential key')

/** A credential key as a backup holds it; the cost is fixed, so that no file can name one that takes a machine down. */
export const SealedKey = z.strictObject({
  kdf: z.literal('scrypt-131072-8-1'),
  salt: z.base64().length(24),
  /** Nonce, tag and text of AES-256-GCM. */
  sealed: z.base64().max(500),
})
export type SealedKey = z.infer<typeof SealedKey>

/** Seals the installation's credential key with a passphrase, which is stored nowhere. */
export async function sealKey(passphrase: string, credentialKey: string): Promise<SealedKey> {
  const salt = randomBytes(16)
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', await derive(passphrase, salt), nonce).setAAD(PURPOSE)
  const text = Buffer.concat([cipher.update(credentialKey, 'utf8'), cipher.final()])
  const sealed = Buffer.concat([nonce, cipher.getAuthTag(), text]).toString('base64')
  return { kdf: 'scrypt-131072-8-1', salt: salt.toString('base64'), sealed }
}

/** Opens it; fails with VALIDATION_ERROR for another passphrase. */
export async function openKey(passphrase: string, { salt, sealed }: SealedKey): Promise<string> {
  const bytes = Buffer.from(sealed, 'base64')
  const key = await derive(passphrase, Buffer.from(salt, 'base64'))
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12)).setAAD(PURPOSE)
    decipher.setAuthTag(bytes.subarray(12, 28))
    return Buffer.concat([decipher.update(bytes.subarray(28)), decipher.final()]).toString('utf8')
  } catch (cause) {
    throw new PanelError('VALIDATION_ERROR', 'The passphrase does not open the credential key of this backup', {
      cause,
    })
  }
}

/** By which a credential key is known again without being shown. */
export function fingerprintOf(credentialKey: string): string {
  return Buffer.from(hkdfSync('sha256', credentialKey, 'panel', 'fingerprint of the credential key', 8)).toString('hex')
}

function derive(passphrase: string, salt: Buffer): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(passphrase.normalize('NFC'), salt, 32, { ...COST, maxmem: MEMORY }, (error, key) =>
      error === null ? resolve(key) : reject(error),
    )
  })
}
