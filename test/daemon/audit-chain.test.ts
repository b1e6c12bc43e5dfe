import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { KyselyPlugin } from 'kysely'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { chainOldRows, trimAudit } from '../../src/daemon/access/audit-chain.ts'
import { createLog } from '../../src/daemon/core/log.ts'
import { type Db, openDb } from '../../src/daemon/db/db.ts'
import { MIGRATIONS, migrate } from '../../src/daemon/db/migrations.ts'
import { Connection } from '../../src/daemon/db/sqlite/connection.ts'
import { verifyAudit } from '../../src/daemon/features/operations/audit-log/verify.ts'
import { verifyAuditLogs } from '../../src/shared/api/audit-log.ts'
import { now, systemClock } from '../../src/shared/kernel/time.ts'
import { type AccountsPanel, HOUR, openSetUpPanel } from './accounts-panel.ts'

type Panel = Awaited<ReturnType<typeof openSetUpPanel>>

let panel: Panel
beforeEach(async () => {
  panel = await openSetUpPanel()
})
afterEach(() => panel.close())

const verify = (query: { after?: number; limit?: number; seq?: number; hash?: string } = {}) =>
  panel.admin.call(verifyAuditLogs, { query })

/** Writes a row by a transaction of its own; with `fails` one that is undone. */
async function record(at: Pick<AccountsPanel, 'db' | 'deps'>, action: string, fails = false): Promise<void> {
  const written = at.db.write(async (tx) => {
    await at.deps.audit.record(
      tx,
      { caller: undefined, origin: null },
      { action, resource: 'system', details: { action } },
    )
    if (fails) throw new Error('undone')
  })
  if (fails) await expect(written).rejects.toThrow('undone')
  else await written
}

/** Ten rows behind that of the set-up. */
async function tenRows(): Promise<void> {
  for (let i = 2; i <= 11; i++) await record(panel, `test.row_${i}`)
}

describe('the chain of the audit log', () => {
  it('is whole after many writes at once of which some were undone', async () => {
    await Promise.all(Array.from({ length: 150 }, (_, i) => record(panel, `test.row_${i}`, i % 3 === 1)))
    expect(await verify()).toMatchObject({ intact: true, checked: 101, lastSeq: 101, next: null, problem: null })
  })

  it.each([
    ['the details', { details: '{"action":"test.other"}' }],
    ['the time', { createdAt: now(systemClock) }],
    ['the user', { userId: 'usr_somebody' }],
    ['the address', { ipAddress: '203.0.113.9' }],
    ['the hash', { hash: 'f'.repeat(64) }],
  ])('names the row of which %s was altered', async (_, change) => {
    await tenRows()
    await panel.db.write((tx) => tx.q.updateTable('auditLog').set(change).where('seq', '=', 5).execute())
    expect(await verify()).toMatchObject({
      intact: false,
      checked: 4,
      next: null,
      problem: { kind: 'altered', seq: 5 },
    })
  })

  it('names the first row that is missing, in the middle and at the end', async () => {
    await tenRows()
    await panel.db.write((tx) => tx.q.deleteFrom('auditLog').where('seq', 'in', [10, 11]).execute())
    expect((await verify()).problem).toMatchObject({ kind: 'truncated', seq: 10 })
    await record(panel, 'test.after')
    expect((await verify()).problem).toMatchObject({
      kind: 'missing',
      seq: 10,
      message: expect.stringContaining('10 to 11'),
    })
    await panel.db.write((tx) => tx.q.deleteFrom('auditLog').where('seq', '=', 1).execute())
    expect((await verify()).problem).toMatchObject({ kind: 'missing', seq: 1 })
  })

  it('shows by a hash kept elsewhere that its end was written anew', async () => {
    await tenRows()
    const { lastSeq, lastHash } = await verify()
    const proof = { seq: lastSeq ?? 0, hash: lastHash ?? '' }
    expect(await verify(proof)).toMatchObject({ intact: true, witness: 'matches' })
    await panel.db.write(async (tx) => {
      await tx.q.deleteFrom('auditLog').where('seq', '=', 11).execute()
      await tx.q.updateTable('auditAnchor').set({ unchainedTo: null }).execute()
    })
    const rewind = await Connection.open(panel.file, 'existing')
    await rewind.exec("pragma busy_timeout = 5000; update sqlite_sequence set seq = 10 where name = 'audit_log'")
    await rewind.close()
    await record(panel, 'test.another_end')
    expect(await verify()).toMatchObject({ intact: true, checked: 11 })
    expect(await verify(proof)).toMatchObject({
      intact: false,
      witness: 'differs',
      problem: { kind: 'replaced', seq: 11 },
    })
  })

  it('can be walked in steps, each behind the one before', async () => {
    await tenRows()
    const first = await verify({ limit: 4 })
    expect(first).toMatchObject({ checked: 4, lastSeq: 4, next: 4 })
    const second = await verify({ after: first.next ?? 0, limit: 100 })
    expect(second).toMatchObject({ intact: true, checked: 7, lastSeq: 11, next: null })
  })

  it('holds after old rows were removed, and keeps the last', async () => {
    await tenRows()
    const { lastHash } = await verify({ limit: 11 })
    panel.clock.advance(HOUR)
    await record(panel, 'test.young')
    expect(await trimAudit(panel.db, now(panel.clock))).toBe(11)
    expect(await verify()).toMatchObject({ intact: true, checked: 1, trimmedTo: 11, lastSeq: 12 })
    expect(await verify({ seq: 11, hash: lastHash ?? '' })).toMatchObject({ intact: true, witness: 'matches' })
    expect(await verify({ seq: 3, hash: lastHash ?? '' })).toMatchObject({ intact: true, witness: 'trimmed' })
    panel.clock.advance(HOUR)
    expect(await trimAudit(panel.db, now(panel.clock))).toBe(0)
    await record(panel, 'test.next')
    expect(await verify()).toMatchObject({ intact: true, checked: 2, lastSeq: 13 })
    await panel.db.write((tx) => tx.q.deleteFrom('auditLog').where('seq', '=', 12).execute())
    expect((await verify()).problem).toMatchObject({ kind: 'missing', seq: 12 })
  })

  it('is not called broken when old rows are removed while it is walked along', async () => {
    await tenRows()
    panel.clock.advance(HOUR)
    const middle = now(panel.clock)
    for (let i = 12; i <= 15; i++) await record(panel, `test.row_${i}`)
    panel.clock.advance(HOUR)
    await record(panel, 'test.young')
    const removing: KyselyPlugin = {
      transformQuery: ({ node }) => node,
      transformResult: async ({ result }) => {
        const [row] = result.rows
        // Behind the read of the anchor, and behind that of the rows which are the first by then.
        if (row?.['seq'] === 0) await trimAudit(panel.db, middle)
        if (row?.['seq'] === 12) await trimAudit(panel.db, now(panel.clock))
        return result
      },
    }
    const { signal } = new AbortController()
    const found = await verifyAudit(panel.db.read.withPlugin(removing), {}, signal)
    expect(found).toMatchObject({ intact: true, problem: null, trimmedTo: 15, checked: 1, lastSeq: 16 })
  })
})

describe('rows from before the chain', () => {
  it('are chained at the next start, also when that was broken off', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'panel-old-audit-'))
    const file = join(folder, 'panel.db')
    await migrate(file, MIGRATIONS.slice(0, 1))
    const old = await Connection.open(file, 'existing')
    await old.run(
      `with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
       insert into audit_log (id, action, resource, created_at)
       select printf('aud_%05d', 2501 - i), 'test.old', 'system', printf('2026-01-01T00:%02d:%02d.000Z', i / 60, i % 60) from n`,
    )
    await old.close()
    await migrate(file)
    const db = await openDb(file, systemClock)
    try {
      const log = createLog({ level: 'silent' })
      let writes = 0
      const breaking: Db = {
        ...db,
        write: (work) => (++writes === 2 ? Promise.reject(new Error('killed')) : db.write(work)),
      }
      await expect(chainOldRows(breaking, log)).rejects.toThrow('killed')
      const chained = db.read.selectFrom('auditLog').select(['seq', 'id']).where('hash', 'is not', null).orderBy('seq')
      expect(await chained.execute()).toHaveLength(1000)
      await chainOldRows(db, log)
      const rows = await chained.execute()
      expect([rows.length, rows[0], rows.at(-1)]).toEqual([
        2500,
        { seq: 1, id: 'aud_02500' },
        { seq: 2500, id: 'aud_00001' },
      ])
      const { signal } = new AbortController()
      expect(await verifyAudit(db.read, {}, signal)).toMatchObject({ intact: true, checked: 2500 })
    } finally {
      await db.close()
      await rm(folder, { recursive: true })
    }
  })
})
