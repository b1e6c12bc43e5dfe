import { type AuditVerification, verifyAuditLogs } from '../../../shared/api/audit-log.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'

/** Rows of one request: about a second of the daemon's work. */
const STEP = 100_000

/** `panel audit verify`: walks along the whole chain, a request for each 100,000 rows. */
export const verifyAudit: Action = async (run) => {
  const witness = witnessOf(run)
  let after: number | undefined
  let checked = 0
  for (;;) {
    const query = { limit: STEP, ...(after === undefined ? witness : { after }) }
    const found = await call(run, verifyAuditLogs, { params: {}, query })
    checked += found.checked
    if (found.problem !== null) throw broken(found.problem.message)
    if (found.next === null) return report(run, { ...found, checked, lastSeq: found.lastSeq ?? after ?? null })
    after = found.next
    run.notice(`${checked.toLocaleString('en-US')} rows are in order so far`)
  }
}

function witnessOf(run: Run): { seq?: number; hash?: string } {
  const text = run.args.text('expect')
  if (text === undefined) return {}
  const [seq, hash] = text.split(':')
  if (!/^\d+$/.test(seq ?? '') || !/^[0-9a-f]{64}$/.test(hash ?? ''))
    throw usage(`--expect must be a row's number and hash as an earlier run printed them, not '${text}'`)
  return { seq: Number(seq), hash: hash ?? '' }
}

async function report(run: Run, found: AuditVerification): Promise<void> {
  const { checked, trimmedTo, lastSeq, lastHash } = found
  const proof = lastSeq === null || lastHash === null ? null : `${lastSeq}:${lastHash}`
  if (run.out.machine) return run.out.value({ intact: true, checked, trimmedTo, proof })
  await run.out.text(`${checked.toLocaleString('en-US')} rows are as they were written\n`)
  if (trimmedTo > 0) run.notice(`rows up to ${trimmedTo} were removed when their time was over`)
  if (proof !== null) run.notice(`keep this elsewhere and give it to --expect later: ${proof}`)
}

function broken(message: string): CliFailure {
  return new CliFailure('OPERATION_FAILED', `the audit log was changed outside of the panel: ${message}`, {
    hint: 'compare with an export or a backup from before',
  })
}
