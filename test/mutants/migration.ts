import type { Mutant } from './mutant.ts'

const FOLDER = 'src/daemon/features/operations/migration'
const STATES = ['test/daemon/migration/states.test.ts'] as const
const RUNS = ['test/daemon/migration/migration.test.ts'] as const
const PLANS = ['test/daemon/migration/plan.test.ts'] as const
const SOURCE = ['test/daemon/migration/source-client.test.ts'] as const
const NODE = ['test/agent/migration/migration.test.ts'] as const

/** Mistakes in migrations, each planted alone. */
export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a step is tried again that no attempt can help',
    topic: 'migration',
    file: `${FOLDER}/step-states.ts`,
    find: 'if (row.retryable === true && !state.retryable) return undefined',
    replace: 'if (row.retryable === true && state.attempt < 0) return undefined',
    seenBy: STATES,
  },
  {
    title: 'a cancel during the last step is forgotten',
    topic: 'migration',
    file: `${FOLDER}/job-states.ts`,
    find: "  { from: ['running'], event: 'all_ended', requested: 'cancel', to: 'cancelled' },\n",
    replace: '',
    seenBy: STATES,
  },
  {
    title: 'two migrations run at once',
    topic: 'migration',
    file: `${FOLDER}/operations.ts`,
    find: 'if (other === undefined) return\n',
    replace: "if (other?.status !== 'validating') return\n",
    seenBy: RUNS,
  },
  {
    title: 'a plan that has changed is carried out',
    topic: 'migration',
    file: `${FOLDER}/plan-job.ts`,
    find: 'planHash === null || planHash === hash || allowDrift',
    replace: 'planHash !== hash || planHash === hash || allowDrift',
    seenBy: RUNS,
  },
  {
    title: 'a conflict of the plan is passed over',
    topic: 'migration',
    file: `${FOLDER}/plan-job.ts`,
    find: 'if (first !== undefined) {',
    replace: 'if (first === null) {',
    seenBy: RUNS,
  },
  {
    title: 'whoever may move servers in makes administrators',
    topic: 'migration',
    file: `${FOLDER}/operations.ts`,
    find: 'if (options.grantAdmin) {',
    replace: 'if (options.grantAdmin && userId === null) {',
    seenBy: RUNS,
  },
  {
    title: 'keys of the source are kept when all is done',
    topic: 'migration',
    file: `${FOLDER}/change.ts`,
    find: '...(hasEnded && !mayGoOn ? { keys: null } : {}),',
    replace: '...(hasEnded && mayGoOn ? { keys: null } : {}),',
    seenBy: RUNS,
  },
  {
    title: 'a server that is the same is brought once more',
    topic: 'migration',
    file: `${FOLDER}/plan/draft.ts`,
    find: "op: isSame ? 'skip' : 'update'",
    replace: "op: isSame && before.targetId === '' ? 'skip' : 'update'",
    seenBy: RUNS,
  },
  {
    title: 'what the source has frozen is not put back',
    topic: 'migration',
    file: `${FOLDER}/steps/source-cleanup.ts`,
    find: 'for (const { uuid } of items.filter(({ name }) => names.has(name)))',
    replace: 'for (const { uuid } of items.filter(({ name }) => names.has(name)).slice(1))',
    seenBy: RUNS,
  },
  {
    title: 'sub-users get a right whose name is not known',
    topic: 'migration',
    file: `${FOLDER}/plan/permissions.ts`,
    find: 'if (found === undefined) unmapped.push(name)',
    replace: "if (found === undefined) unmapped.push(name), permissions.add('server.users')",
    seenBy: PLANS,
  },
  {
    title: 'two servers of one node get the same port',
    topic: 'migration',
    file: `${FOLDER}/plan/ports.ts`,
    find: 'return !node.takenPorts.has(key) && !this.#of(node).has(key)',
    replace: 'return !node.takenPorts.has(key)',
    seenBy: PLANS,
  },
  {
    title: 'the source is asked although it wants to be left alone',
    topic: 'migration',
    file: `${FOLDER}/source/request-budget.ts`,
    find: 'if (now < this.#silentUntil) return this.#silentUntil - now',
    replace: 'if (now < this.#silentUntil) return 0',
    seenBy: SOURCE,
  },
  {
    title: 'keys stand in messages',
    topic: 'migration',
    file: `${FOLDER}/source/http.ts`,
    find: ".replace(/\\b(?:ptl[ac]|papp|pacc)_\\w{1,200}/g, '[key]')",
    replace: '',
    seenBy: SOURCE,
  },
  {
    title: 'an id of the source leads to another path',
    topic: 'migration',
    file: `${FOLDER}/source/http.ts`,
    find: "encodeURIComponent(values[at] ?? '')",
    replace: "(values[at] ?? '')",
    seenBy: SOURCE,
  },
  {
    title: 'another archive than the expected one is unpacked',
    topic: 'migration',
    file: 'src/agent/migration/arrival.ts',
    find: 'if (expected !== null && expected !== sha1) throw',
    replace: "if (expected === '') throw",
    seenBy: NODE,
  },
  {
    title: 'the node asks wherever a URL leads',
    topic: 'migration',
    file: 'src/agent/migration/source-archive.ts',
    find: 'if (!origins.some((origin) => parsed(origin)?.origin === url.origin)) {',
    replace: 'if (origins.length === 0) {',
    seenBy: NODE,
  },
  {
    title: 'a link among the folders of servers is followed',
    topic: 'migration',
    file: 'src/agent/migration/directory.ts',
    find: "if (above.statOf(name)?.isSymbolicLink() === true) return 'is a link, and links are not followed'",
    replace: "if (above.statOf(name)?.isFIFO() === true) return 'is a link, and links are not followed'",
    seenBy: NODE,
  },
]
