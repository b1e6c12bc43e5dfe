import type { z } from 'zod'
import type { DbStatus } from '../../../../shared/api/overview.ts'
import { type DbStats, dbLatency, dbSizes, dbStats } from '../../../db/db-stats.ts'
import type { OverviewDeps } from './deps.ts'

/** The state of the panel's database. What cannot be read while it is away is `null`. */
export async function readDbStatus({ db, clock, integrity }: OverviewDeps): Promise<z.input<typeof DbStatus>> {
  const sizes = await dbSizes(db.file)
  const read = await orUndefined(async () => ({
    latencyMs: await dbLatency(db, () => clock.monotonicMs()),
    ...(await dbStats(db)),
  }))
  const checked = integrity.report()
  const health = db.health()
  const found = health.status === 'damaged' ? { status: health.status, problems: [health.reason ?? ''] } : checked
  return {
    status: read === undefined ? 'disconnected' : 'connected',
    engine: 'sqlite',
    version: read?.version ?? null,
    path: db.file,
    ...sizes,
    pageSize: read?.pageSize ?? null,
    pageCount: read?.pageCount ?? null,
    freelistPages: read?.freelistPages ?? null,
    tables: read === undefined ? [] : [...read.tables],
    migrations: read?.migrations ?? null,
    integrity: { status: found.status, problems: [...found.problems], checkedAt: checked.checkedAt },
    latencyMs: read?.latencyMs ?? null,
  }
}

type Read = DbStats & { readonly latencyMs: number }

async function orUndefined(read: () => Promise<Read>): Promise<Read | undefined> {
  try {
    return await read()
  } catch {
    return undefined // the answer says that the database is away
  }
}
