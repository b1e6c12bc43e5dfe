import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../src/shared/api/admin.ts'
import { exportAuditLogs } from '../../src/shared/api/audit-log.ts'
import type { ExportFormat } from '../../src/shared/kernel/export.ts'
import { openSetUpPanel, person, refusal } from './accounts-panel.ts'

type Panel = Awaited<ReturnType<typeof openSetUpPanel>>

const ROWS = 2500
/** What a spreadsheet would run, and what would break a row of CSV. */
const NASTY = ['=1+1', '+1', '-1', '@SUM(A1)', '\t=1', 'a "quoted", text', 'two\r\nlines', 'häß 漢', '']

let panel: Panel
beforeAll(async () => {
  panel = await openSetUpPanel()
  const actor = { caller: undefined, origin: null }
  await panel.db.write(async (tx) => {
    for (let i = 0; i < ROWS; i++) {
      const entry = { action: `test.${i % 2 === 0 ? 'even' : 'odd'}`, resource: 'system', resourceId: `n-${i}` }
      await panel.deps.audit.record(tx, actor, entry)
    }
    for (const resourceId of NASTY) {
      await panel.deps.audit.record(tx, actor, {
        action: 'nasty.text',
        resource: 'system',
        resourceId,
        details: { a: 1 },
      })
    }
  })
})
afterAll(() => panel.close())

async function exported(format: ExportFormat, filter: Record<string, string> = {}): Promise<string> {
  const parts: Uint8Array[] = []
  for await (const part of await panel.admin.file(exportAuditLogs, { query: { format, ...filter } })) parts.push(part)
  return Buffer.concat(parts).toString('utf8')
}

describe('an export of the audit log', () => {
  it('holds every row once, newest first, as JSON lines and as one array', async () => {
    const lines = (await exported('jsonl')).trimEnd().split('\n')
    const rows = lines.map((line) => JSON.parse(line) as { id: string; resourceId: string | null })
    expect(rows).toHaveLength(ROWS + NASTY.length + 1)
    expect(new Set(rows.map(({ id }) => id)).size).toBe(rows.length)
    const numbered = rows.flatMap(({ resourceId }) => (resourceId?.startsWith('n-') === true ? [resourceId] : []))
    expect(numbered).toEqual(Array.from({ length: ROWS }, (_, i) => `n-${ROWS - 1 - i}`))
    expect(JSON.parse(await exported('json'))).toEqual(rows)
    const [first] = await panel.admin.call(listAuditLogs, { query: { limit: 1 } })
    expect(rows[0]).toEqual(first)
  })

  it('as CSV quotes every field and lets no text become a formula', async () => {
    const text = await exported('csv', { action: 'nasty' })
    const [head, ...rows] = parseCsv(text)
    expect(head?.slice(0, 9)).toEqual(
      'id,timestamp,action,resource,resourceId,userId,username,email,details'.split(','),
    )
    expect(rows).toHaveLength(NASTY.length)
    const values = rows.map((row) => row[4]).toReversed()
    expect(values).toEqual(NASTY.map((value) => (/^[=+\-@\t]/.test(value) ? `'${value}` : value)))
    expect(rows[0]?.[8]).toBe('{"a":1}')
    expect(text.split('\r\n')[1]).toMatch(/^"aud_\w+",".*"$/)
  })

  it('is filtered like the list', async () => {
    const odd = (await exported('jsonl', { action: 'test.odd' })).trimEnd().split('\n')
    expect(odd).toHaveLength(ROWS / 2)
    expect(await exported('jsonl', { action: 'nothing' })).toBe('')
    expect(JSON.parse(await exported('json', { userId: 'nobody' }))).toEqual([])
    expect(parseCsv(await exported('csv', { address: '203.0.113.7' }))).toHaveLength(1)
  })

  it('is for holders of admin.write, in a format that there is', async () => {
    const reader = await person(panel, 'reader', ['admin.read'])
    const query = { format: 'csv' } as const
    expect(await refusal(reader.file(exportAuditLogs, { query }))).toMatchObject({ code: 'PERMISSION_DENIED' })
    const bad = await fetch(`${panel.url}/api/admin/audit-logs/export?format=xml`, {
      headers: { authorization: `Bearer ${reader.token}` },
    })
    expect(bad.status).toBe(403)
    const wrong = exportAuditLogs.query.safeParse({ format: 'xml' })
    expect(wrong.success).toBe(false)
  })

  it('does not read on when its reader has gone', async () => {
    const leave = new AbortController()
    const bytes = await panel.admin.file(exportAuditLogs, { query: { format: 'jsonl' } }, { signal: leave.signal })
    for await (const _ of bytes) break
    leave.abort()
    // Both readers of the database are free again: many lists at once are answered.
    const lists = Array.from({ length: 8 }, () => panel.admin.call(listAuditLogs, { query: { limit: 1 } }))
    expect(await Promise.all(lists)).toHaveLength(8)
  })
})

/** RFC 4180, every field quoted. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = []
  let row: string[] = []
  for (const [, field = '', end = ''] of text.matchAll(/"((?:[^"]|"")*)"(,|\r\n)/g)) {
    row.push(field.replaceAll('""', '"'))
    if (end === ',') continue
    rows.push(row)
    row = []
  }
  return rows
}
