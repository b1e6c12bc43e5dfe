import { z } from 'zod'
import {
  type MigrationDetail,
  type MigrationJob,
  MigrationPlan,
  MigrationReport,
  type MigrationStep,
} from '../../../../shared/api/migration.ts'
import type { Queries } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { MigrationConfig } from './migration-config.ts'
import { countSteps, findPapers, listSteps, type MigrationRow, type MigrationStepRow } from './rows.ts'

const Metadata = z.record(z.string(), z.unknown())
const MOST_STEPS = 1000

/** A migration as answers show it: never with its keys. */
export async function toJob(q: Queries, row: MigrationRow): Promise<z.input<typeof MigrationJob>> {
  const { running: _running, pending: _pending, ...progress } = await countSteps(q, row.id)
  const { planHash: _hash, allowDrift: _drift, ...config } = parseJson(MigrationConfig, row.config)
  const { id, status, requested, outcome, sourceUrl, sourceKind, sourceVersion, currentPhase, error, errorCode } = row
  const { planHash, startedAt, completedAt, createdAt, updatedAt } = row
  return {
    ...{ id, jobId: id, status, requested, outcome, sourceUrl, sourceKind, sourceVersion, config, currentPhase },
    ...{ progress, error, errorCode, planHash, hasKeys: row.keys !== null },
    ...{ startedAt, completedAt, createdAt, updatedAt, _count: { steps: progress.total } },
  }
}

/** The same with plan, report and the first steps. */
export async function toDetail(q: Queries, row: MigrationRow): Promise<z.input<typeof MigrationDetail>> {
  const { rows } = await listSteps(q, { jobId: row.id, page: 1, limit: MOST_STEPS })
  const papers = await findPapers(q, row.id)
  return {
    ...(await toJob(q, row)),
    steps: rows.map(toStep),
    plan: papers?.plan == null ? null : parseJson(MigrationPlan, papers.plan),
    report: papers?.report == null ? null : parseJson(MigrationReport, papers.report),
  }
}

export function toStep(row: MigrationStepRow): z.input<typeof MigrationStep> {
  const { id, jobId, seq, phase, action, name, sourceType, sourceId, targetId, status, reason, attempt } = row
  const { error, errorCode, notBefore, startedAt, completedAt } = row
  const durationMs = startedAt === null || completedAt === null ? null : Date.parse(completedAt) - Date.parse(startedAt)
  const metadata = row.result === null ? null : parseJson(Metadata, row.result)
  return {
    ...{ id, stepId: id, jobId, seq, phase, action, name, sourceType, sourceId, targetId, status, reason },
    ...{
      retryable: row.retryable === 1,
      attempt,
      error,
      errorCode,
      durationMs,
      metadata,
      notBefore,
      startedAt,
      completedAt,
    },
  }
}
