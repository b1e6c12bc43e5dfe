import type { AuditProblem, AuditVerification, verifyAuditLogs } from '../../../../shared/api/audit-log.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { auditEnds, auditHash, readAnchor, rowsAfter } from '../../../access/audit-chain.ts'
import type { Queries } from '../../../db/db.ts'

type Query = Input<typeof verifyAuditLogs>['query']

/** Rows that are looked at in one go: some milliseconds, then others have their turn. */
const BATCH = 500

/** Walks along the chain from the first kept row, or from behind `after`, up to the first row that is not as it was written. */
export async function verifyAudit(q: Queries, query: Query, signal: AbortSignal): Promise<AuditVerification> {
  const walk = await begin(q, query.after ?? 0)
  let problem: AuditProblem | null = null
  let rows = 0
  const most = query.limit ?? Number.POSITIVE_INFINITY
  let atEnd = false
  while (problem === null && rows < most && !atEnd && !signal.aborted) {
    const batch = await rowsAfter(q, walk.seq, Math.min(BATCH, most - rows))
    atEnd = batch.length === 0
    for (const row of batch) {
      if (row.seq !== walk.seq + 1) {
        if (!(await caughtUp(q, walk))) problem = missing(walk.seq + 1, row)
        break
      }
      if (row.hash !== auditHash(walk.hash, row)) {
        problem = altered(row)
        break
      }
      walk.seq = row.seq
      walk.hash = row.hash
      rows += 1
    }
  }
  if (problem === null && atEnd) problem = await missingEnd(q)
  const witness = await witnessOf(q, query)
  problem ??= witnessProblem(query, witness)
  const { seq: trimmedTo } = await readAnchor(q)
  return {
    intact: problem === null,
    checked: rows,
    trimmedTo,
    lastSeq: rows === 0 ? null : walk.seq,
    lastHash: rows === 0 ? null : walk.hash,
    next: problem !== null || atEnd ? null : walk.seq,
    witness,
    problem,
  }
}

interface Walk {
  seq: number
  hash: string
}

/** Behind the anchor, or behind a row that an earlier call has found in order. The anchor is read last: it only moves on. */
async function begin(q: Queries, after: number): Promise<Walk> {
  const [row] = after === 0 ? [] : await rowsAfter(q, after - 1, 1)
  const anchor = await readAnchor(q)
  if (after <= anchor.seq) return { seq: anchor.seq, hash: anchor.hash }
  return { seq: after, hash: row?.seq === after ? (row.hash ?? '') : '' }
}

/** Retention may have removed the rows under our feet: then the walk goes on behind the new anchor. */
async function caughtUp(q: Queries, walk: Walk): Promise<boolean> {
  const anchor = await readAnchor(q)
  if (anchor.seq <= walk.seq) return false
  walk.seq = anchor.seq
  walk.hash = anchor.hash
  return true
}

async function missingEnd(q: Queries): Promise<AuditProblem | null> {
  const { last, written } = await auditEnds(q)
  const end = last?.seq ?? (await readAnchor(q)).seq
  if (end >= written) return null
  const message = `${written - end} rows behind row ${end} were written and are gone`
  return { kind: 'truncated', seq: end + 1, id: null, message }
}

function witnessProblem({ seq }: Query, found: AuditVerification['witness']): AuditProblem | null {
  if (seq === undefined || found === null || found === 'matches' || found === 'trimmed') return null
  const message = found === 'absent' ? `row ${seq} is gone` : `row ${seq} has another hash than was written down`
  return { kind: 'replaced', seq, id: null, message }
}

/** The anchor is read last, as in {@link begin}. */
async function witnessOf(q: Queries, { seq, hash }: Query): Promise<AuditVerification['witness']> {
  if (seq === undefined || hash === undefined) return null
  const [row] = await rowsAfter(q, seq - 1, 1)
  const anchor = await readAnchor(q)
  const found = row?.seq === seq ? row : anchor
  if (found.seq === seq) return found.hash === hash ? 'matches' : 'differs'
  return seq < anchor.seq ? 'trimmed' : 'absent'
}

function missing(first: number, row: { seq: number; id: string }): AuditProblem {
  const last = row.seq - 1
  const which = first === last ? `row ${first} is gone` : `rows ${first} to ${last} are gone`
  return { kind: 'missing', seq: first, id: null, message: `${which}, before ${row.id}` }
}

function altered({ seq, id }: { seq: number; id: string }): AuditProblem {
  const message = `row ${seq} (${id}) is not as it was written, or it does not belong behind the row before it`
  return { kind: 'altered', seq, id, message }
}
