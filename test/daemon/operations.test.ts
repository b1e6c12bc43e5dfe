import { afterAll, beforeAll, expect, test } from 'vitest'
import { PANEL, type Principal, perform } from '../../src/daemon/access/operation.ts'
import { createLog } from '../../src/daemon/core/log.ts'
import { createCredentials } from '../../src/daemon/features/accounts/auth/credentials.ts'
import { createPasswords } from '../../src/daemon/features/accounts/auth/passwords.ts'
import { addRoleMember } from '../../src/daemon/features/accounts/users/member-operations.ts'
import { createRole } from '../../src/daemon/features/accounts/users/role-operations.ts'
import { createLocation } from '../../src/daemon/features/fleet/locations/operations.ts'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import { createUser } from '../../src/shared/api/users.ts'
import type { RoleId, UserId } from '../../src/shared/kernel/ids.ts'
import { type PlacePanel, startPlacePanel } from './place-panel.ts'

let panel: PlacePanel
beforeAll(async () => {
  panel = await startPlacePanel()
})
afterAll(() => panel.close())

function makeLocation(principal: Principal, name: string) {
  const input = { params: {}, query: undefined, body: { name } }
  return panel.db.write((tx) => perform(tx, createLocation, { deps: panel, principal, input }))
}

/** The newest audit row, and the event of the change that it is about. */
async function newest() {
  const { data } = await panel.admin.page(listAuditLogs, { query: { limit: 1 } })
  const events = await panel.bus.after(0, 10_000)
  return { row: data[0], event: events.filter(({ type }) => type === 'location_created').at(-1) }
}

test('a change by a job says on whose behalf it was made, by which job, and what has started that', async () => {
  const { id } = await panel.admin.call(getMe)
  const principal = { kind: 'job', jobId: 'job_1', onBehalfOf: id, cause: 'schedule nightly' } as const
  const made = await makeLocation(principal, 'by a job')
  const { row, event } = await newest()
  expect(row).toMatchObject({
    ...{ action: 'location.create', resource: 'location', resourceId: made.id, userId: id, ipAddress: null },
    details: { name: 'by a job', job: { id: 'job_1', cause: 'schedule nightly' } },
  })
  expect(event?.data).toMatchObject({ locationId: made.id, createdBy: id })
})

test('a change by the panel itself has nobody behind it', async () => {
  const made = await makeLocation(PANEL, 'by the panel')
  const { row, event } = await newest()
  expect(row).toMatchObject({ action: 'location.create', resourceId: made.id, userId: null })
  expect(row?.details).not.toHaveProperty('job')
  expect(event?.data).toMatchObject({ locationId: made.id, createdBy: null })
})

test('a job may do what the roles of its user allow at that moment, and one of nobody what the panel may', async () => {
  const log = createLog({ level: 'silent' })
  const credentials = createCredentials({ db: panel.db, clock: panel.clock, log })
  const deps = { ...panel, credentials, passwords: createPasswords() }
  const body = { name: 'given by a job', description: null, permissions: ['server.start' as const] }
  const give = (onBehalfOf: string | null, name: string) => {
    const principal = { kind: 'job', jobId: 'job_2', onBehalfOf, cause: 'a test' } as const
    const input = { params: {}, query: undefined, body: { ...body, name } }
    return panel.db.write((tx) => perform(tx, createRole, { deps, principal, input }))
  }
  const { id } = await panel.admin.call(createUser, {
    body: { email: 'ann@example.org', username: 'ann', password: 'Correct-horse-11', roleIds: [] },
  })
  await expect(give(id, 'of ann')).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
  expect(await give((await panel.admin.call(getMe)).id, 'of the administrator')).toMatchObject({
    name: 'of the administrator',
  })
  expect(await give(null, 'of nobody')).toMatchObject({ name: 'of nobody' })

  // Only who holds all that the administrator holds may change what roles that account has.
  const administrator = (await panel.admin.call(getMe)).id
  const empty = { params: {}, query: undefined, body: { name: 'empty', description: null, permissions: [] } }
  const none = await panel.db.write((tx) => perform(tx, createRole, { deps, principal: PANEL, input: empty }))
  const join = (onBehalfOf: string | null) => {
    const principal = { kind: 'job', jobId: 'job_3', onBehalfOf, cause: 'a test' } as const
    const input = {
      params: { roleId: none.id as RoleId, userId: administrator as UserId },
      query: undefined,
      body: undefined,
    }
    return panel.db.write((tx) => perform(tx, addRoleMember, { deps, principal, input }))
  }
  await expect(join(id)).rejects.toMatchObject({ code: 'PERMISSION_DENIED' })
  expect(await join(null)).toBeNull()
  await credentials.close()
})
