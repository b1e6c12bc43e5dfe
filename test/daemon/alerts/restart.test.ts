import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { openDb } from '../../../src/daemon/db/db.ts'
import { listAlerts } from '../../../src/shared/api/alerts.ts'
import { isoTime, systemClock } from '../../../src/shared/kernel/time.ts'
import { startPanel } from '../../panel.ts'
import { eventually, quickClock } from '../webhooks/receiver.ts'
import { looked } from './alert-stage.ts'

it('a restart neither forgets an alert nor repeats it, and nodes were not away while the daemon was', async () => {
  const home = await mkdtemp(join(tmpdir(), 'panel-restart-'))
  const clock = quickClock()
  let panel = await startPanel({ clock, dataDir: home })
  try {
    // A node that was there a day ago.
    const db = await openDb(join(panel.dataDir, 'db', 'panel.db'), systemClock)
    const lastSeenAt = isoTime(systemClock.nowMs() - 86_400_000)
    await db.write(async (tx) => void (await tx.q.updateTable('node').set({ lastSeenAt }).execute()))
    await db.close()
    const alerts = () => panel.client.call(listAlerts)
    await looked(panel)
    expect(await alerts()).toEqual([])
    clock.advance(6 * 60_000)
    await eventually('the alert', async () => (await alerts()).length === 1)
    const [alert] = await alerts()
    expect(alert).toMatchObject({ type: 'node_offline', resolved: false })
    await panel.close()
    panel = await startPanel({ clock, dataDir: home })
    await looked(panel)
    expect(await alerts()).toEqual([alert])
    clock.advance(60 * 60_000)
    await looked(panel)
    expect(await alerts()).toEqual([alert])
  } finally {
    await panel.close()
    await rm(home, { recursive: true })
  }
})
