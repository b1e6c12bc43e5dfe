import type { putProvider, RoleMapping } from '../../../../shared/api/providers.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants, missingFrom, type Permission } from '../../../../shared/kernel/permissions.ts'
import { SECRET_MASK } from '../../../../shared/kernel/setting-values.ts'
import type { Holder } from '../../../access/permit.ts'
import { PermissionList } from '../../../access/role-permissions.ts'
import { settingLocked } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { heldForGood, refuseMissing } from '../auth/grant-cap.ts'
import { assignmentsOfRoles, PASSED_ON } from '../auth/node-cap.ts'
import type { SsoDeps } from './deps.ts'
import {
  blankProvider,
  type FixableField,
  findProvider,
  openSecret,
  type ProviderEntry,
  secretPlace,
} from './provider-rows.ts'

/** The fields of a change; `null` where a field may be cleared. */
export type ProviderChange = {
  [K in keyof Input<typeof putProvider>['body']]?: Input<typeof putProvider>['body'][K] | null
}

/** What changed, for the audit log; the secret only by its mask. */
export type ChangedFields = Record<string, { before: unknown; after: unknown }>

type EditDeps = Pick<SsoDeps, 'settings' | 'vault'>

const MOST_PROVIDERS = 100

/** Fields that decide whose word counts, and for what. */
const TRUST = new Set([
  'clientId',
  'clientSecret',
  'discoveryUrl',
  'allowedDomains',
  'createAccounts',
  'linkByEmail',
  'groupClaim',
  'roleMapping',
])

/**
 * Writes the given fields of a provider and makes it when it is not there. By its provider people get accounts, roles and
 * sign-ins, so whoever decides about that must hold all that the one before held, and vouches from then on.
 * Answers what has changed.
 */
export async function changeProvider(
  tx: Tx,
  deps: EditDeps,
  holder: Holder,
  { id, change }: { id: string; change: ProviderChange },
): Promise<ChangedFields> {
  const found = await findProvider(tx.q, deps.settings, id)
  const before = found ?? blankProvider(deps.settings, id)
  const changed = changedFields(deps, before, change)
  const fields = Object.keys(changed)
  if (fields.length === 0 && found !== undefined) return {}
  for (const field of ['clientId', 'clientSecret', 'discoveryUrl'] satisfies FixableField[]) {
    const fixed = before.fixed[field]
    if (fixed !== undefined && field in changed) throw settingLocked(field, fixed)
  }
  const held = await heldForGood(tx, holder)
  const trusting = fields.some((field) => TRUST.has(field))
  if (trusting) await ensureMayVouch(tx, { holder, held, before, change })
  const vouched = trusting || before.createdAt === null ? [...held] : before.vouched
  await store(tx, deps, { before, change, vouched })
  return changed
}

/** Refuses who may not decide about a provider as it is configured now. */
export async function ensureMayEnd(tx: Tx, holder: Holder, provider: ProviderEntry): Promise<void> {
  refuseMissing(missingFrom(await heldForGood(tx, holder), provider.vouched))
}

function changedFields({ vault }: EditDeps, before: ProviderEntry, change: ProviderChange): ChangedFields {
  const changed: ChangedFields = {}
  for (const [field, after] of Object.entries(change)) {
    if (after === undefined || field === 'clientSecret') continue
    const old: unknown = Reflect.get(before, field)
    if (comparable(old) !== comparable(after)) changed[field] = { before: old ?? null, after }
  }
  const secret = change.clientSecret
  if (secret === undefined || secret === SECRET_MASK) return changed
  if (secret === null ? before.secret === null : before.secret !== null && sameSecret(vault, before, secret))
    return changed
  changed['clientSecret'] = {
    before: before.secret === null ? null : SECRET_MASK,
    after: secret === null ? null : SECRET_MASK,
  }
  return changed
}

function sameSecret(vault: EditDeps['vault'], before: ProviderEntry, secret: string): boolean {
  try {
    return openSecret(vault, before) === secret
  } catch {
    return false // sealed by a key that is gone: the new one must be able to take its place
  }
}

/** Lists count by what is in them, whatever the order. */
function comparable(value: unknown): string {
  if (!Array.isArray(value)) return JSON.stringify(value ?? null)
  return JSON.stringify(value.map((item) => JSON.stringify(item, ['group', 'roleId'])).sort())
}

async function ensureMayVouch(
  tx: Tx,
  {
    holder,
    held,
    before,
    change,
  }: { holder: Holder; held: ReadonlySet<string>; before: ProviderEntry; change: ProviderChange },
): Promise<void> {
  refuseMissing(missingFrom(held, before.vouched))
  const needed: Permission[] = []
  if (change.createAccounts === true && !before.createAccounts) needed.push('user.create')
  const known = new Set(before.roleMapping.map(keyOf))
  const fresh = (change.roleMapping ?? []).filter((row) => !known.has(keyOf(row)))
  if (fresh.length > 0) needed.push('user.set_roles')
  refuseMissing(needed.filter((permission) => !grants(holder.permissions, permission)))
  refuseMissing(missingFrom(held, await permissionsOf(tx, fresh)))
}

async function permissionsOf(tx: Tx, mapping: readonly RoleMapping[]): Promise<Set<string>> {
  const ids = [...new Set(mapping.map(({ roleId }) => roleId))]
  if (ids.length === 0) return new Set()
  const roles = await tx.q.selectFrom('role').select(['id', 'permissions']).where('id', 'in', ids).execute()
  const known = new Set(roles.map(({ id }) => id))
  const unknown = ids.find((id) => !known.has(id))
  if (unknown !== undefined) throw new PanelError('ROLE_NOT_FOUND', `There is no role ${unknown}`)
  const assigned = await assignmentsOfRoles(tx, ids)
  const own = roles.flatMap((role) => parseJson(PermissionList, role.permissions))
  return new Set([...own, ...(assigned.length === 0 ? [] : PASSED_ON)])
}

async function store(
  tx: Tx,
  { vault }: EditDeps,
  { before, change, vouched }: { before: ProviderEntry; change: ProviderChange; vouched: readonly string[] },
): Promise<void> {
  const { id } = before
  const plain = <K extends 'name' | 'clientId' | 'discoveryUrl' | 'groupClaim'>(field: K) =>
    before.fixed[field as FixableField] === undefined && change[field] !== undefined ? change[field] : before[field]
  const flag = (field: 'enabled' | 'createAccounts' | 'linkByEmail') => ((change[field] ?? before[field]) ? 1 : 0)
  const isFixed = (field: FixableField): boolean => before.fixed[field] !== undefined
  const values = {
    name: plain('name') ?? id,
    // What is fixed does not get into the table: it would outlive the file.
    clientId: isFixed('clientId') ? null : plain('clientId'),
    discoveryUrl: isFixed('discoveryUrl') ? null : plain('discoveryUrl'),
    clientSecret: storedSecret(vault, before, change.clientSecret),
    enabled: flag('enabled'),
    scopes: JSON.stringify(change.scopes ?? before.scopes),
    allowedDomains: JSON.stringify(change.allowedDomains ?? before.allowedDomains),
    createAccounts: flag('createAccounts'),
    linkByEmail: flag('linkByEmail'),
    groupClaim: plain('groupClaim'),
    vouched: JSON.stringify(vouched),
    updatedAt: tx.now,
  } as const
  if (before.createdAt === null) {
    await refuseTooMany(tx)
    await tx.q
      .insertInto('identityProvider')
      .values({ id, ...values, createdAt: tx.now })
      .execute()
  } else await tx.q.updateTable('identityProvider').set(values).where('id', '=', id).execute()
  if (change.roleMapping === undefined || change.roleMapping === null) return
  await tx.q.deleteFrom('providerRole').where('providerId', '=', id).execute()
  const rows = new Map(change.roleMapping.map((row) => [keyOf(row), row]))
  for (const { group, roleId } of rows.values()) {
    await tx.q.insertInto('providerRole').values({ providerId: id, groupName: group, roleId }).execute()
  }
}

function storedSecret(
  vault: EditDeps['vault'],
  { id, secret }: ProviderEntry,
  given: string | null | undefined,
): string | null {
  const kept = secret !== null && 'sealed' in secret ? secret.sealed : null
  if (given === undefined || given === SECRET_MASK) return kept
  if (given === null) return null
  if (secret !== null && 'clear' in secret) return kept // the same as the fixed one: one that differs was refused
  return vault.seal(secretPlace(id), given)
}

async function refuseTooMany(tx: Tx): Promise<void> {
  const { count } = await tx.q
    .selectFrom('identityProvider')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  if (Number(count) < MOST_PROVIDERS) return
  throw new PanelError('CONFLICT', `There are ${MOST_PROVIDERS} identity providers already; remove one first`)
}

function keyOf({ group, roleId }: RoleMapping): string {
  return JSON.stringify([group, roleId])
}
