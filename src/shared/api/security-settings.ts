import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { SECURITY_NUMBERS, type SecurityField } from '../kernel/security-numbers.ts'

const numbers = Object.fromEntries(
  Object.entries(SECURITY_NUMBERS).map(([field, { min, max }]) => [field, z.int().min(min).max(max)]),
) as Record<SecurityField, z.ZodInt> // made from its keys

const fields = {
  ...numbers,
  /** Whether strangers may make accounts for themselves. */
  registrationEnabled: z.boolean(),
}

/** The limits of the panel. All are in force at once. */
export const SecuritySettings = z.object({ ...fields, locked: Locked })
export type SecuritySettings = z.infer<typeof SecuritySettings>

export const getSecuritySettings = defineEndpoint({
  id: 'settings.security_get',
  tag: 'Admin',
  summary: 'Show who may register, and the limits of sign-in, requests, consoles, agents and files',
  method: 'GET',
  path: '/api/admin/security-settings',
  access: { panel: 'admin.read' },
  response: SecuritySettings,
})

export const updateSecuritySettings = defineEndpoint({
  id: 'settings.security_update',
  tag: 'Admin',
  summary: 'Change who may register, or limits; what is not named stays',
  method: 'PUT',
  path: '/api/admin/security-settings',
  access: { panel: 'admin.write' },
  body: z.object(fields).partial(),
  ignores: ['locked'],
  response: SecuritySettings,
  errors: ['SETTING_LOCKED'],
  audit: { action: 'settings.security_update', resource: 'system' },
})
