import type { z } from 'zod'
import { createAlertRule } from '../../../src/shared/api/alert-rules.ts'
import { getAlert, listAlerts } from '../../../src/shared/api/alerts.ts'
import { updateSmtpSettings } from '../../../src/shared/api/smtp-settings.ts'
import type { AgentFrame } from '../../../src/shared/protocol/frames.ts'
import type { TestPanel } from '../../panel.ts'
import type { AgentPeer } from '../agent-peer.ts'
import { type MailServer, startMailServer } from '../mail/mail-server.ts'
import { Stage, until } from '../servers/stage.ts'
import { eventually, type QuickClock, quickClock, type Receiver, startReceiver } from '../webhooks/receiver.ts'

/** A daemon whose time tests move, with a mail server and somebody who is told of alerts. */
export interface AlertStage {
  readonly stage: Stage
  readonly clock: QuickClock
  readonly mail: MailServer
  readonly receiver: Receiver
  close(): Promise<void>
}

export async function openAlertStage(): Promise<AlertStage> {
  const clock = quickClock()
  const stage = await Stage.open({ clock })
  const mail = await startMailServer()
  const receiver = await startReceiver()
  const smtp = { host: '127.0.0.1', port: mail.port, from: 'panel@example.org', secure: false, requireTls: false }
  await stage.admin.call(updateSmtpSettings, { body: smtp })
  return {
    stage,
    clock,
    mail,
    receiver,
    close: async () => {
      await stage.close()
      await Promise.all([mail.close(), receiver.close()])
    },
  }
}

const NO_FIGURES = {
  ioReadBytes: null,
  ioWriteBytes: null,
  networkRxBytes: null,
  networkTxBytes: null,
  processes: 1,
  uptimeMs: 1000,
}

/** What an agent says that a server uses, of 0.1 cores, 64 MiB and 64 MiB of disk. */
export function figures(
  serverId: string,
  used: { readonly cpuCores?: number; readonly memoryMb?: number; readonly diskMb?: number },
): AgentFrame {
  const { cpuCores = 0, memoryMb = 1, diskMb = 1 } = used
  return { type: 'stats', servers: [{ serverId, cpuCores, memoryMb, diskMb, ...NO_FIGURES }] }
}

/** Waits for an alert that fits. */
export function alertOf({ admin }: Stage, query: Parameters<typeof queryOf>[0], fits = (_: Found) => true) {
  return until(`an alert ${JSON.stringify(query)}`, async () =>
    (await admin.call(listAlerts, { query: queryOf(query) })).find(fits),
  )
}

type Found = Awaited<ReturnType<typeof listNow>>[number]

const listNow = ({ admin }: Stage) => admin.call(listAlerts)

const queryOf = (query: { serverId?: string; nodeId?: string; resolved?: boolean }) => ({
  ...(query.serverId === undefined ? {} : { serverId: query.serverId as never }), // ids of rows that the test has made
  ...(query.nodeId === undefined ? {} : { nodeId: query.nodeId as never }),
  ...(query.resolved === undefined ? {} : { resolved: String(query.resolved) as 'true' | 'false' }),
})

/** All alerts about a server. */
export const alertsAbout = ({ admin }: Stage, serverId: string) =>
  admin.call(listAlerts, { query: queryOf({ serverId }) })

/** Waits until every message about the alert is settled, and answers them. */
export function settled({ admin }: Stage, alertId: string, count: number) {
  return until(`${count} messages about ${alertId}`, async () => {
    const { deliveries } = await admin.call(getAlert, { params: { alertId: alertId as never } })
    const done = deliveries.filter(({ status }) => status !== 'pending')
    return done.length === count ? done : undefined
  })
}

/** Waits until everything that is there now has been looked at by the rules: a look may be under way, the next one is whole. */
export async function looked(panel: Pick<TestPanel, 'url' | 'adminToken'>): Promise<void> {
  const looks = () => figureOf(panel, 'panel_work_rounds_total{work="alert_rules",outcome="ok"}')
  const before = await looks()
  await eventually('two looks at the rules', async () => (await looks()) >= before + 2)
}

async function figureOf({ url, adminToken }: Pick<TestPanel, 'url' | 'adminToken'>, name: string): Promise<number> {
  const answer = await fetch(`${url}/metrics`, { headers: { authorization: `Bearer ${adminToken}` } })
  const line = (await answer.text()).split('\n').find((text) => text.startsWith(`${name} `))
  return Number(line?.slice(name.length) ?? 0)
}

/** Waits until the rules have seen these figures, and nothing newer. */
export async function lookedAt({ panel }: Stage, peer: AgentPeer, frame: AgentFrame): Promise<void> {
  const name = `panel_gateway_frames_total{type="${frame.type}"}`
  const before = await figureOf(panel, name)
  const seen = async () => {
    await eventually(name, async () => (await figureOf(panel, name)) > before)
    await looked(panel)
  }
  await whileSending(peer, frame, seen())
}

/** Makes a rule as the administrator. */
export const makeRule = ({ admin }: Stage, body: Omit<NewRule, 'name'>) =>
  admin.call(createAlertRule, { body: { name: 'a rule', ...body } })

type NewRule = z.input<typeof createAlertRule.body>

/** Sends the same figures until the daemon has acted on them: they count for a minute only. */
export async function whileSending<T>(peer: AgentPeer, frame: AgentFrame, waiting: Promise<T>): Promise<T> {
  let done = false
  const loop = async (): Promise<void> => {
    while (!done) {
      peer.send(frame)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  const sending = loop()
  try {
    return await waiting
  } finally {
    done = true
    await sending
  }
}
