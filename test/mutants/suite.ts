import type { Mutant } from './mutant.ts'

const PAGE = ['test/docs-guarantees.test.ts'] as const
const SKIPS = ['test/skips.test.ts'] as const
const HOSTS = ['test/daemon/databases/hosts.test.ts'] as const
const LOCATIONS = 'src/daemon/features/fleet/locations/routes.ts'
const LOCATION_OPERATIONS = 'src/daemon/features/fleet/locations/operations.ts'

/** Mistakes that the tests of the pages, of the tests themselves, and the loops over the contract have to see. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'A promise names a file of tests that there is not',
    topic: 'guarantees page',
    file: 'docs/guarantees.md',
    find: '`test/faults/absence.test.ts`',
    replace: '`test/faults/absences.test.ts`',
    seenBy: PAGE,
  },
  {
    title: 'A promise has no proof',
    topic: 'guarantees page',
    file: 'docs/guarantees.md',
    find: '| `test/agent/power.test.ts`: "leaves an older specification aside, and refuses orders of an older generation" |',
    replace: '| it is certain |',
    seenBy: PAGE,
  },
  {
    title: 'A table of promises has no column for their limits',
    topic: 'guarantees page',
    file: 'docs/guarantees.md',
    find: '## Records\n\n| Promise | Proof | Limits |',
    replace: '## Records\n\n| Promise | Proof |',
    seenBy: PAGE,
  },
  {
    title: 'A test that is skipped does not say why',
    topic: 'names and skips',
    file: 'test/agent/files/walk.test.ts',
    find: 'it.runIf(isRoot)(`does not enter what is mounted there, says so, and takes all else${NO_ROOT}`',
    replace: "it.runIf(isRoot)('does not enter what is mounted there, says so, and takes all else'",
    seenBy: SKIPS,
  },
  {
    title: 'A group of tests that is skipped does not say why',
    topic: 'names and skips',
    file: 'test/faults/two-at-once.test.ts',
    find: 'describe.skipIf(!mayUnshare)(`a folder that two containers have${WHY_NOT}`,',
    replace: "describe.skipIf(!mayUnshare)('a folder that two containers have',",
    seenBy: SKIPS,
  },
  {
    title: 'Names of database hosts that differ in case are two',
    topic: 'names and skips',
    file: 'src/daemon/features/servers/databases/host-rows.ts',
    find: "row.name.normalize('NFC').toLowerCase() === folded",
    replace: "row.name.normalize('NFC') === name",
    seenBy: HOSTS,
  },
  {
    title: 'A database host has itself for a namesake',
    topic: 'names and skips',
    file: 'src/daemon/features/servers/databases/host-rows.ts',
    find: ".select(['id', 'name']).where('id', '!=', besideId)",
    replace: ".select(['id', 'name']).where('id', '!=', '').where('id', '!=', besideId.slice(1))",
    seenBy: HOSTS,
  },
  {
    title: 'Names of locations that differ in case are two',
    topic: 'names and skips',
    file: 'src/daemon/db/migrations/0001-first-schema.ts',
    find: 'create table location (\n  id text primary key, name text not null unique collate nocase,',
    replace: 'create table location (\n  id text primary key, name text not null unique,',
    seenBy: ['test/daemon/locations.test.ts'],
  },
  {
    title: 'A deletion leaves no audit row',
    topic: 'contract loops',
    file: LOCATION_OPERATIONS,
    find: '      audit: { resourceId: locationId, details: { name } },\n',
    replace: '',
    seenBy: ['test/contract/drive-through.test.ts'],
  },
  {
    title: 'An edit is audited without what was before',
    topic: 'contract loops',
    file: LOCATION_OPERATIONS,
    find: '{ resourceId: locationId, details }',
    replace: '{ resourceId: locationId }',
    seenBy: ['test/contract/drive-through.test.ts'],
  },
  {
    title: 'An answer lacks a field of its contract',
    topic: 'contract loops',
    file: LOCATIONS,
    find: 'return { ...location, nodes:',
    replace: 'return { ...location, members:',
    seenBy: ['test/contract/drive-through.test.ts'],
  },
  {
    title: 'An endpoint that the specification names has another path',
    topic: 'contract loops',
    file: 'src/shared/api/power.ts',
    find: "path: '/api/servers/:serverId/power',",
    replace: "path: '/api/servers/:serverId/powers',",
    seenBy: ['test/contract/spec.test.ts'],
  },
  {
    title: 'Parameters of a path are taken as they come',
    topic: 'contract loops',
    file: 'src/daemon/http/server.ts',
    find: "params: parsePart('params', served.params, request.params),",
    replace: 'params: request.params as never,',
    seenBy: ['test/contract/junk.test.ts'],
  },
  {
    title: 'An audit row is written past the one place for them',
    topic: 'operations',
    file: 'src/daemon/features/signals/webhooks/webhook-health.ts',
    find: '  await recordFact(',
    replace:
      "  await deps.audit.record(tx, { caller: undefined, origin: null }, { action: 'webhook.disable', resource: 'webhook' })\n  await recordFact(",
    seenBy: ['test/architecture.test.ts'],
  },
  {
    title: 'A route is bound outside the files for that',
    topic: 'operations',
    file: 'src/daemon/features/accounts/auth/own-records.ts',
    find: '/** One page of what an account did, newest first. */',
    replace: 'export const ROUTES = (): unknown => route(api.listOwnAuditLogs, listOwnAudit)\n',
    seenBy: ['test/architecture.test.ts'],
  },
]
