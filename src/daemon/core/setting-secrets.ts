import type { Vault } from './secrets.ts'
import type { SecretSettingKey, Settings } from './settings.ts'

/** The text that the table keeps of a secret setting. Fails with CREDENTIAL_ENCRYPTION_KEY_MISSING without a key. */
export function sealSetting(vault: Vault, key: SecretSettingKey, secret: string): string {
  return vault.seal(place(key), secret)
}

/** The secret behind the text that {@link sealSetting} made. */
export function openSealedSetting(vault: Vault, key: SecretSettingKey, sealed: string): string {
  return vault.open(place(key), sealed)
}

/** The secret itself, wherever it stands; `null` when there is none. */
export function secretSetting(settings: Settings, vault: Vault, key: SecretSettingKey): string | null {
  const value = settings.get(key)
  if (value === null || settings.fixed(key) !== undefined) return value
  return openSealedSetting(vault, key, value)
}

function place(key: SecretSettingKey): string {
  return `setting.value ${key}`
}
