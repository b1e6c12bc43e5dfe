import type { AuditProblem, AuditVerification, verifyAuditLogs } from '../../shared/api/audit-log.ts'
import type { Input } from '../../shared/contract.ts'
import { auditEnds, auditHash, readAnchor, rowsAfter } from '../core/audit-chain.ts'
import type { Queries } from '../core/db.ts'

type Wish = Input<typeof verifyAuditLogs>['query']

/** Rows that are looked at in one go: some milliseconds, then others have their turn. */
const BATCH = 500

/** Walks along the chain from the first kept row, or from behind `after`, up to the first row that is not as it was written. */
export async function verifyAudit(q: Queries, wish: Wish, signal: AbortSignal): Promise<AuditVerification> {
  const walk = await begin(q, wish.after ?? 0)
  let problem: AuditProblem | null = null
  let rows = 0
  const most = wish.limit ?? Number.POSITIVE_INFINITY
  let atEnd = false
  while (problem === null && rows < most && !atEnd && !signal.aborted) {
    const batch = await rowsAfter(q, walk.seq, Math.min(BATCH, most - rows))
    atEnd = batch.length === 0
    for (const row of batch) {
      if (row.seq !== walk.seq + 1 && !(await caughtUp(q, walk, row.seq))) {
        problem = missing(walk.seq + 1, row)
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
  problem ??= await witnessProblem(q, wish)
  const { seq: trimmedTo } = await readAnchor(q)
  return {
    intact: problem === null,
    checked: rows,
    trimmedTo,
    lastSeq: rows === 0 ? null : walk.seq,
    lastHash: rows === 0 ? null : walk.hash,
    next: problem !== null || atEnd ? null : walk.seq,
    witness: await witnessOf(q, wish),
    problem,
  }
}

interface Walk {
  seq: number
  hash: string
}

/** Behind the anchor, or behind a row that an earlier call has found in order. */
async function begin(q: Queries, after: number): Promise<Walk> {
  const anchor = await readAnchor(q)
  if (after <= anchor.seq) return { seq: anchor.seq, hash: anchor.hash }
  const [row] = await rowsAfter(q, after - 1, 1)
  return { seq: after, hash: row?.seq === after ? (row.hash ?? '') : '' }
}

/** Retention may have removed the rows under our feet: then the walk goes on behind the new anchor. */
async function caughtUp(q: Queries, walk: Walk, seq: number): Promise<boolean> {
  const anchor = await readAnchor(q)
  if (anchor.seq + 1 !== seq) return false
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

async function witnessProblem(q: Queries, wish: Wish): Promise<AuditProblem | null> {
  const found = await witnessOf(q, wish)
  if (wish.seq === undefined || found === null || found === 'matches' || found === 'trimmed') return null
  const message =
    found === 'absent' ? `row ${wish.seq} is gone` : `row ${wish.seq} has another hash than was written down`
  return { kind: 'replaced', seq: wish.seq, id: null, message }
}

async function witnessOf(q: Queries, { seq, hash }: Wish): Promise<AuditVerification['witness']> {
  if (seq === undefined || hash === undefined) return null
  const anchor = await readAnchor(q)
  if (seq < anchor.seq) return 'trimmed'
  const [row] = seq === anchor.seq ? [anchor] : await rowsAfter(q, seq - 1, 1)
  if (row?.seq !== seq) return 'absent'
  return row.hash === hash ? 'matches' : 'differs'
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
