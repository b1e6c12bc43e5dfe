import * as api from '../../../shared/api/migration.ts'
import { ERRORS, PanelError } from '../../../shared/kernel/errors.ts'
import type { MigrationId } from '../../../shared/kernel/ids.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { reportOf } from '../../kit/report.ts'
import { beginsId, isAnId } from '../../kit/resource/id.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Run } from '../../kit/run.ts'

const PAGE = 100
const STEPS_PAGE = 200

/**
 * The migration that the positional word names: its id, the beginning of it, or `latest`. With `moves` the latest is that which has
 * moved something, however many plans and comparisons came after it.
 */
export async function jobOf(run: Run, { moves = false }: { readonly moves?: boolean } = {}): Promise<MigrationId> {
  const word = run.args.required('job')
  if (isAnId(word, 'mig')) return word as MigrationId // such a word is one, and the daemon says whether it is there
  const client = await run.client()
  const found: api.MigrationJob[] = []
  for (let page = 1; ; page++) {
    const { data, pagination } = await client.page(api.listMigrations, { query: { page, limit: PAGE } })
    if (word === 'latest') {
      const newest = data.find(({ config }) => !moves || (!config.dryRun && config.verifyOf === null))
      if (newest !== undefined) return newest.id
      if (hasNextPage(pagination, data.length)) continue
      throw new CliFailure('NOT_FOUND', 'there is no migration yet', { hint: 'panel migration start' })
    }
    found.push(...data.filter(({ id }) => beginsId(id, 'mig', word)))
    if (!hasNextPage(pagination, data.length)) break
  }
  const [only] = found
  if (only === undefined)
    throw new CliFailure('NOT_FOUND', `there is no migration '${word}'`, { hint: 'panel migration list' })
  if (found.length > 1)
    throw new CliFailure('AMBIGUOUS_NAME', `'${word}' means ${found.length} migrations`, { hint: 'use the id' })
  return only.id
}

/** A migration without its plan and its steps, which may be megabytes. */
export async function readJob(run: Run, jobId: MigrationId): Promise<api.MigrationJob> {
  const client = await run.client()
  const { data } = await client.page(api.listMigrations, { query: { page: 1, limit: 20 } })
  return data.find(({ id }) => id === jobId) ?? (await client.call(api.getMigration, { params: { jobId } }))
}

/** Steps of a migration in one status, at most so many. */
export async function stepsIn(
  run: Run,
  jobId: MigrationId,
  { status, most }: { readonly status: api.MigrationStep['status']; readonly most: number },
): Promise<api.MigrationStep[]> {
  const client = await run.client()
  const found: api.MigrationStep[] = []
  for (let page = 1; found.length < most; page++) {
    const query = { status, page, limit: Math.min(most, STEPS_PAGE) }
    const { data, pagination } = await client.page(api.listMigrationSteps, { params: { jobId }, query })
    found.push(...data)
    if (!hasNextPage(pagination, data.length)) break
  }
  return found.slice(0, most)
}

/** The step that a word names: its id, the beginning of it, or its number. */
export async function stepOf(run: Run, jobId: MigrationId, word: string): Promise<api.MigrationStep['id']> {
  if (isAnId(word, 'mgs')) return word as api.MigrationStep['id'] // as above
  const client = await run.client()
  const matches: api.MigrationStep[] = []
  for (let page = 1; ; page++) {
    const { data, pagination } = await client.page(api.listMigrationSteps, {
      params: { jobId },
      query: { page, limit: STEPS_PAGE },
    })
    const numbered = data.find(({ seq }) => String(seq) === word)
    if (numbered !== undefined) return numbered.id
    matches.push(...data.filter(({ id }) => id === word || beginsId(id, 'mgs', word)))
    if (!hasNextPage(pagination, data.length)) break
  }
  const [only] = matches
  if (only !== undefined && matches.length === 1) return only.id
  if (only !== undefined) throw usage(`'${word}' means ${matches.length} steps: use the id or the number`)
  throw new CliFailure('NOT_FOUND', `the migration has no step '${word}'`, {
    hint: `panel migration steps ${jobId} --failed`,
  })
}

/** Whether a failure is of the way to the panel, which may be there again in a moment, as after a restart of it. */
export function isPassing(error: unknown): boolean {
  if (error instanceof PanelError) return PASSING.has(ERRORS[error.code].exit)
  return reportOf(error).exit === UNREACHABLE
}

const UNREACHABLE = 13
/** Throttled, or not reachable. */
const PASSING: ReadonlySet<number> = new Set([9, UNREACHABLE])
