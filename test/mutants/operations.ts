import type { Mutant } from './mutant.ts'

const OPERATION = 'src/daemon/access/operation.ts'
const SERVERS = 'src/daemon/features/servers/servers'
const AS_A_JOB = ['test/daemon/operations.test.ts'] as const

/** Changes whose audit row or event is lost, or that are made with other rights than those of whom they are for. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'An edit of a server leaves no audit row',
    topic: 'operations',
    file: `${SERVERS}/edit.ts`,
    find: '    audit: { resourceId: row.id, details: maskEnvironment(changed, row) },\n',
    replace: '',
    seenBy: ['test/daemon/servers/edit.test.ts'],
  },
  {
    title: 'An order to a server leaves no audit row',
    topic: 'operations',
    file: `${SERVERS}/orders.ts`,
    find: 'done: { audit: { resourceId: row.id, details } }',
    replace: 'done: { audit: details === undefined ? { resourceId: row.id } : undefined }',
    seenBy: ['test/daemon/servers/power.test.ts'],
  },
  {
    title: 'A bulk action leaves the rows of single ones',
    topic: 'operations',
    file: `${SERVERS}/bulk.ts`,
    find: '{ ...audit, action: `server.bulk_${action}` }',
    replace: '{ ...audit, action: `server.${action}` }',
    seenBy: ['test/daemon/servers/bulk.test.ts'],
  },
  {
    title: 'A change of a role has no event',
    topic: 'operations',
    file: 'src/daemon/features/accounts/users/role-operations.ts',
    find: "    events: [{ type: 'role_updated', data }],\n",
    replace: "    events: data.roleId === '' ? [{ type: 'role_updated', data }] : [],\n",
    seenBy: ['test/daemon/admin-events.test.ts'],
  },
  {
    title: 'A change of settings has no event',
    topic: 'operations',
    file: 'src/daemon/features/operations/settings/group.ts',
    find: 'events: [{ type: group.event, data: { updatedBy } }]',
    replace: "events: updatedBy === '' ? [{ type: group.event, data: { updatedBy } }] : []",
    seenBy: ['test/daemon/admin-events.test.ts'],
  },
  {
    title: 'An audit row has the resource of its action, whatever the contract names',
    topic: 'operations',
    file: OPERATION,
    find: 'given.resource ?? declared?.resource ?? action',
    replace: 'given.resource ?? action',
    seenBy: ['test/daemon/settings/settings.test.ts'],
  },
  {
    title: 'A job may do everything, whoever it is for',
    topic: 'operations',
    file: OPERATION,
    find: '{ userId, permissions: await rolePermissions(tx.q, userId), scope: null }',
    replace: "{ userId, permissions: new Set([...(await rolePermissions(tx.q, userId)), '*']), scope: null }",
    seenBy: AS_A_JOB,
  },
  {
    title: 'The audit row of a job does not say which job it was',
    topic: 'operations',
    file: OPERATION,
    find: 'origin: null, job, ...',
    replace: 'origin: null, ...(job.id === "" ? { job } : {}), ...',
    seenBy: AS_A_JOB,
  },
  {
    title: 'messages of alerts go to whoever has lost the right to read them',
    topic: 'alerts',
    file: 'src/daemon/features/signals/webhooks/delivery-job.ts',
    find: 'refusal === undefined',
    replace: 'refusal !== job.id',
    seenBy: ['test/daemon/alerts/crashes.test.ts'],
  },
]
