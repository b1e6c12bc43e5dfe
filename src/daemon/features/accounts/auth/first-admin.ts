import { completeSetup } from '../../../../shared/api/auth.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { newId } from '../../../../shared/kernel/ids.ts'
import { DEFAULT_ROLES } from '../../../../shared/kernel/permissions.ts'
import type { Origin } from '../../../access/caller.ts'
import { PANEL, recordChange, unauthenticated } from '../../../access/operation.ts'
import type { Settings } from '../../../core/settings.ts'
import type { Tx } from '../../../db/db.ts'
import type { AccountDeps } from './deps.ts'
import { isSetUp } from './setup-state.ts'

/** The administrator that `panel up` makes; nobody can sign in as it until it has a password. */
export const LOCAL_ADMIN = { username: 'admin', email: 'admin@localhost.invalid', passwordHash: null } as const

/** Who becomes the first administrator. */
export interface FirstAdmin {
  readonly email: string
  readonly username: string
  readonly passwordHash: string | null
  /** Settings that setup decides; absent ones keep their defaults. */
  readonly panelName?: string
  readonly locale?: string
  /** `null`: the panel by itself. */
  readonly origin: Origin | null
}

/**
 * Makes the default roles and the first administrator and marks the installation as set up. Fails with
 * SETUP_ALREADY_COMPLETE when that has happened before or any user exists, whoever else tries at the same time.
 */
export async function createFirstAdmin(
  tx: Tx,
  deps: Pick<AccountDeps, 'audit' | 'bus' | 'clock' | 'settings' | 'credentials'>,
  admin: FirstAdmin,
): Promise<{ userId: string }> {
  if (await isSetUp(tx.q)) {
    throw new PanelError('SETUP_ALREADY_COMPLETE', 'This installation is set up already; sign in instead')
  }
  const userId = newId('usr', deps.clock)
  const { email, username, passwordHash } = admin
  await insertUser(tx, { id: userId, email, username, passwordHash })
  const roles = await createRoles(tx, deps, userId)
  await deps.settings.set(tx, 'setup.completedAt', tx.now)
  await setUnlessFixed(tx, deps.settings, { 'panel.name': admin.panelName, 'panel.locale': admin.locale })
  const user = { id: userId, email, username, createdAt: tx.now, updatedAt: tx.now, roles }
  const principal = admin.origin === null ? PANEL : unauthenticated(admin.origin, userId)
  await recordChange(
    tx,
    { deps, principal, endpoint: completeSetup },
    {
      audit: { resourceId: userId, details: { username, email } },
      events: [{ type: 'user_created', data: { user, createdBy: null } }],
    },
  )
  tx.onCommit(() => deps.credentials.changed())
  return { userId }
}

/** What file or environment decide stays: the setup must not fail over it. */
async function setUnlessFixed(
  tx: Tx,
  settings: Settings,
  values: Readonly<Record<'panel.name' | 'panel.locale', string | undefined>>,
): Promise<void> {
  for (const key of ['panel.name', 'panel.locale'] as const) {
    const value = values[key]
    if (value !== undefined && settings.fixed(key) === undefined) await settings.set(tx, key, value)
  }
}

/** A new row of `user`; the constraints of the table speak when name or address are taken. */
export async function insertUser(
  tx: Tx,
  user: {
    id: string
    email: string
    username: string
    passwordHash: string | null
    firstName?: string | null
    lastName?: string | null
    emailVerified?: 0 | 1
  },
): Promise<void> {
  await tx.q
    .insertInto('user')
    .values({
      firstName: null,
      lastName: null,
      emailVerified: 1,
      ...user,
      banned: 0,
      banReason: null,
      banExpires: null,
      lastSuccessfulLogin: null,
      createdAt: tx.now,
      updatedAt: tx.now,
    })
    .execute()
}

/** Answers those that the administrator has been given. */
async function createRoles(
  tx: Tx,
  deps: Pick<AccountDeps, 'clock'>,
  adminId: string,
): Promise<{ id: string; name: string }[]> {
  const given: { id: string; name: string }[] = []
  for (const { name, description, permissions } of DEFAULT_ROLES) {
    const id = newId('role', deps.clock)
    const isAdministrator = name === 'Administrator'
    await tx.q
      .insertInto('role')
      .values({
        id,
        name,
        description,
        permissions: JSON.stringify(permissions),
        protected: isAdministrator ? 1 : 0,
        createdAt: tx.now,
        updatedAt: tx.now,
      })
      .execute()
    if (!isAdministrator) continue
    await tx.q.insertInto('userRole').values({ userId: adminId, roleId: id }).execute()
    given.push({ id, name })
  }
  return given
}
