import { getMigration, type MigrationDetail, type MigrationReport } from '../../../shared/api/migration.ts'
import { jsonText } from '../../../shared/kernel/terminal-text.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import { jobOf } from './job.ts'
import { statusOf } from './views.ts'

/** `panel migration report`. */
export const showReport: Action = async (run) => {
  const jobId = await jobOf(run, { moves: true })
  const job = await call(run, getMigration, { params: { jobId } })
  const { report } = job
  if (report === null) {
    const hint = job.config.dryRun ? 'a plan moves nothing: panel migration start' : `panel migration watch ${jobId}`
    throw new CliFailure('INVALID_STATE', `the migration is ${statusOf(job)}, and has no report yet`, { hint })
  }
  const out = run.args.text('out')
  const format = run.args.text('format')
  // The format for programs is that of every command, where nothing else is asked for.
  if (out === undefined && (format === 'json' || (format === undefined && run.out.machine))) {
    if (run.out.machine) return run.out.value(report)
    return run.out.text(`${jsonText(report, 2)}\n`)
  }
  const text = await textOf({ job, report, format: format ?? 'text' })
  if (out === undefined || out === '-') return run.out.remote(text)
  const { writePrivateFile } = await import('../../kit/profile/files.ts')
  await writePrivateFile(out, text)
  run.notice(`written to ${out}`)
}

async function textOf({
  job,
  report,
  format,
}: {
  readonly job: MigrationDetail
  readonly report: MigrationReport
  readonly format: string
}): Promise<string> {
  if (format === 'json') return `${jsonText(report, 2)}\n`
  const { markdownReport, textReport } = await import('./report-text.ts')
  return format === 'markdown' ? markdownReport(job, report) : textReport(job, report)
}
