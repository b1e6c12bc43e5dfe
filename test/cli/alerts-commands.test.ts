import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openAlert } from '../contract/open-alert.ts'
import { isSignedWith, type Receiver, startReceiver } from '../daemon/webhooks/receiver.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { ALERTS } from './alerts-paths.ts'
import { walkPanel } from './command-walk.ts'

let panel: TestPanel
let receiver: Receiver
beforeAll(async () => {
  panel = await startPanel()
  receiver = await startReceiver()
})
afterAll(async () => {
  await panel.close()
  await receiver.close()
})

const walk = walkPanel(ALERTS, () => panel)
const { ok, json } = walk
const refused = async (code: number, args: readonly string[]): Promise<string> =>
  (await walk.refused(code, args)).stderr

describe('commands of alerts and webhooks', { timeout: 60_000 }, () => {
  it('webhooks: create, test, deliveries, redeliver, edit, delete', async () => {
    const secret = (
      await ok(['webhooks', 'create', '--name', 'chat', '--to', receiver.url, '--event', 'node.*'])
    ).trim()
    expect(secret).toMatch(/^whsec_/)
    expect(await json(['webhooks', 'test', 'chat'])).toMatchObject({ ok: true, status: 204 })
    expect(isSignedWith((await receiver.took(1))[0] ?? expect.unreachable(), secret)).toBe(true)
    receiver.answer = (response) => void response.writeHead(500).end('out of order')
    expect(await refused(11, ['webhooks', 'test', 'chat'])).not.toContain(secret)
    receiver.answer = (response) => void response.writeHead(204).end()
    const [failed] = await json(['webhooks', 'deliveries', 'chat', '--failed', '--since', '1h'])
    expect(failed).toMatchObject({ event: 'webhook.test', status: 'failed', lastStatus: 500 })
    expect(await ok(['webhooks', 'delivery', 'chat', failed.id])).toContain('out of order')
    expect(await json(['webhooks', 'redeliver', 'chat', failed.id])).toMatchObject({ status: 'pending' })
    await receiver.took(3)
    await ok(['webhooks', 'edit', 'chat', '--secret-stdin', '--no-enabled'], { input: 'a-secret-of-my-own\n' })
    expect(await json(['webhooks', 'view', 'chat'])).toMatchObject({ enabled: false, events: ['node.*'] })
    expect(await ok(['webhooks', 'list', '--no-enabled', '-o', 'name'])).toBe('chat\n')
    expect((await ok(['webhooks', 'edit', 'chat', '--rotate-secret'])).trim()).toMatch(/^whsec_/)
    await refused(8, ['webhooks', 'create', '--name', 'x', '--to', 'http://10.0.0.1/x'])
    await ok(['webhooks', 'delete', 'chat', '--yes'])
  })

  it('alert rules: create, edit, test, delete', async () => {
    const when = ['--type', 'resource_threshold', '--global', '--cpu', '90', '--for', '5m']
    const made = await json(['alert-rules', 'create', '--name', 'busy', ...when, '--webhook', receiver.url])
    expect(made).toMatchObject({
      target: 'global',
      conditions: { cpuThreshold: 90, durationSeconds: 300 },
      webhookSecret: expect.stringMatching(/^whsec_/),
    })
    await ok(['alert-rules', 'edit', 'busy', '--memory', '80', '--cooldown', '30'])
    expect(await json(['alert-rules', 'view', 'busy'])).toMatchObject({
      conditions: { cpuThreshold: 90, memoryThreshold: 80, durationSeconds: 300 },
      actions: { webhooks: [receiver.url], cooldownMinutes: 30 },
    })
    receiver.received.length = 0
    const alert = await json(['alert-rules', 'test', 'busy'])
    const [reported] = await receiver.took(1)
    expect(reported?.json.event).toBe('alert.test')
    expect(reported !== undefined && isSignedWith(reported, made.webhookSecret)).toBe(true)
    expect(await json(['alerts', 'deliveries', alert.id])).toMatchObject([{ channel: 'webhook', target: receiver.url }])
    expect((await ok(['alert-rules', 'list', '-o', 'name'])).split('\n').sort()).toEqual(['', 'Node away', 'busy'])
    await refused(8, ['alert-rules', 'create', '--name', 'x', '--type', 'node_offline', '--global', '--cpu', '50'])
    await ok(['alert-rules', 'delete', 'busy', '--yes'])
  })

  it('alerts: list, view, stats, resolve, delete', async () => {
    const rule = 'rule_00000000000000000000000001'
    const ids = [await openAlert(panel, rule), await openAlert(panel, rule), await openAlert(panel, rule)]
    const [first = '', ...others] = ids
    expect(await json(['alerts', 'list', '--open', '--severity', 'critical'])).toHaveLength(3)
    expect(await ok(['alerts', 'view', first])).toContain('It has been away for long.')
    expect(await json(['alerts', 'stats'])).toMatchObject({ unresolved: 3, bySeverity: { critical: 3 } })
    expect(await json(['alerts', 'resolve', first])).toMatchObject({ resolved: true })
    await refused(2, ['alerts', 'resolve-all', ...others])
    expect(await json(['alerts', 'resolve-all', ...others, '--yes'])).toEqual({ resolved: 2 })
    await ok(['alerts', 'delete', first, '--yes'])
    await refused(6, ['alerts', 'view', first])
  })

  it('leave none out', () => {
    expect(walk.left()).toEqual([])
  })
})
