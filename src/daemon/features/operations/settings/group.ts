import type { EventType } from '../../../../shared/kernel/events.ts'
import type { Locked } from '../../../../shared/kernel/locked-settings.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { Done, OperationDeps, WorkOver } from '../../../access/operation.ts'
import type { Vault } from '../../../core/secrets.ts'
import { openSealedSetting, sealSetting } from '../../../core/setting-secrets.ts'
import {
  SECRET_SETTINGS,
  type SecretSettingKey,
  type SettingKey,
  type Settings,
  type SettingValue,
  settingLocked,
} from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'

/** What groups of settings are read and written with. */
export interface GroupDeps extends OperationDeps {
  readonly settings: Settings
  readonly vault: Vault
}

type Fields = Readonly<Record<string, SettingKey>>

/** Settings that are shown and changed together; `fields` names the key behind each field of the API. */
export interface SettingGroup<F extends Fields> {
  readonly name: string
  readonly event: Extract<EventType, `${string}_settings_updated`>
  readonly fields: F
}

/** The values of a group by field. */
export type GroupValues<F extends Fields> = { -readonly [K in keyof F]: SettingValue<F[K]> }

/** A group as it is answered. */
export type GroupView<F extends Fields> = GroupValues<F> & { locked: Locked }

/** How a change of a group differs from putting values in place of others. */
export interface ChangeRules<F extends Fields> {
  /** Refuses a combination; secrets are there as they are stored. */
  readonly check?: (values: GroupValues<F>) => void
  /** Puts the given value of a field together with the present one. */
  readonly combine?: (field: string, before: unknown, given: unknown) => unknown
  /** Refuses who may not change these fields; what it writes itself it answers for the audit log. */
  readonly decide?: (tx: Tx, change: { before: GroupValues<F>; changed: readonly string[] }) => Promise<Details>
}

/** What changed, field by field, as the audit log keeps it. */
type Details = Readonly<Record<string, { readonly before: unknown; readonly after: unknown }>>

/** The group as it is answered: secrets as the mask, and which fields are fixed. */
export function groupView<F extends Fields>(
  { settings }: Pick<GroupDeps, 'settings'>,
  group: SettingGroup<F>,
): GroupView<F> {
  const values = Object.entries(group.fields).map(([field, key]) => [field, settings.get(key)])
  return viewOf(settings, group, Object.fromEntries(values) as GroupValues<F>) // the same fields, each with its key's value
}

function viewOf<F extends Fields>(
  settings: Settings,
  { fields }: SettingGroup<F>,
  stored: GroupValues<F>,
): GroupView<F> {
  const values = Object.entries(fields).map(([field, key]) => [field, shown(key, Reflect.get(stored, field))])
  const locked: Locked = {}
  for (const [field, key] of Object.entries(fields)) {
    const fixed = settings.fixed(key)
    if (fixed !== undefined) locked[field] = fixed.source
  }
  return { ...(Object.fromEntries(values) as GroupValues<F>), locked } // as above
}

/**
 * Writes the given fields and leaves the others; leaves a row and an event when anything has changed. A fixed field may be
 * sent back as it is; a change of one is refused with SETTING_LOCKED. `view` is the group after it.
 */
export async function changeGroup<F extends Fields>(
  { tx, deps, userId: updatedBy }: WorkOver<GroupDeps>,
  group: SettingGroup<F>,
  request: { readonly given: Readonly<Record<string, unknown>>; readonly rules?: ChangeRules<F> },
): Promise<{ view: GroupView<F>; done: Done }> {
  const { settings } = deps
  const before = await valuesIn(tx, settings, group.fields)
  const after = { ...before }
  const details: Record<string, { before: unknown; after: unknown }> = {}
  for (const [field, key] of Object.entries(group.fields)) {
    const given = request.given[field]
    if (given === undefined) continue
    const old = before[field]
    const value = request.rules?.combine?.(field, old, given) ?? given
    if (!differs(deps, key, old, value)) continue
    const fixed = settings.fixed(key)
    if (fixed !== undefined) throw settingLocked(field, fixed)
    const stored = isSecret(key) && typeof value === 'string' ? sealSetting(deps.vault, key, value) : value
    await settings.set(tx, key, stored as never) // checked by the contract, and by the key's schema there
    Object.assign(after, { [field]: stored })
    details[field] = { before: shown(key, old), after: shown(key, stored) }
  }
  Object.assign(details, await request.rules?.decide?.(tx, { before, changed: Object.keys(details) }))
  if (Object.keys(details).length === 0) return { view: viewOf(settings, group, before), done: {} }
  request.rules?.check?.(after)
  return {
    view: viewOf(settings, group, after),
    done: { audit: { resourceId: group.name, details }, events: [{ type: group.event, data: { updatedBy } }] },
  }
}

async function valuesIn<F extends Fields>(tx: Tx, settings: Settings, fields: F): Promise<GroupValues<F>> {
  const values: [string, unknown][] = []
  for (const [field, key] of Object.entries(fields)) values.push([field, await settings.read(tx, key)])
  return Object.fromEntries(values) as GroupValues<F> // as in groupView
}

function differs({ settings, vault }: GroupDeps, key: SettingKey, old: unknown, value: unknown): boolean {
  if (!isSecret(key)) return JSON.stringify(old) !== JSON.stringify(value)
  if (value === SECRET_MASK) return false
  if (typeof old !== 'string' || typeof value !== 'string') return old !== value
  if (settings.fixed(key) !== undefined) return old !== value
  if (!vault.hasKey) return true
  try {
    return openSealedSetting(vault, key, old) !== value
  } catch {
    return true // sealed by a key that is gone: the new one must be able to take its place
  }
}

function isSecret(key: SettingKey): key is SecretSettingKey {
  return SECRET_SETTINGS.some((secret) => secret === key)
}

function shown(key: SettingKey, value: unknown): unknown {
  return isSecret(key) && value !== null ? SECRET_MASK : value
}
