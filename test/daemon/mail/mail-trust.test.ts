import { afterAll, beforeAll, expect, it } from 'vitest'
import { forgotPassword } from '../../../src/shared/api/account-recovery.ts'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { createApiKey, listRoles } from '../../../src/shared/api/api-keys.ts'
import { updateSmtpSettings } from '../../../src/shared/api/smtp-settings.ts'
import { createUser, inviteUser } from '../../../src/shared/api/users.ts'
import type { Client } from '../../../src/shared/client.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { refusal } from '../place-panel.ts'
import { type MailServer, startMailServer } from './mail-server.ts'

let panel: TestPanel
let mail: MailServer
/** May set the mail server, and little else. */
let clerk: Client
beforeAll(async () => {
  panel = await startPanel()
  mail = await startMailServer({ disabledCommands: ['AUTH', 'STARTTLS'] })
  const { key } = await panel.client.call(createApiKey, { body: { name: 'c', permissions: ['admin.write'] } })
  clerk = panel.as(key)
})
afterAll(async () => {
  await panel.close()
  await mail.close()
})

const own = () => ({ host: '127.0.0.1', port: mail.port, from: 'panel@example.org' })
const put = (by: Client, body: object) => by.call(updateSmtpSettings, { body })
const mailsTo = (address: string) => mail.received.filter(({ to }) => to.includes(address)).length
const forget = (email: string) => panel.as(undefined).call(forgotPassword, { body: { email } })

async function account(username: string, roleIds: readonly string[]): Promise<string> {
  const email = `${username}@example.org`
  const body = { email, username, password: 'Correct-horse-1', roleIds: roleIds as never }
  await panel.client.call(createUser, { body })
  return email
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!condition()) {
    if (performance.now() > deadline) throw new Error('it did not come to pass')
    await systemClock.sleep(10)
  }
}

it('brings nobody by mail into an account that can do more than who set the mail server', async () => {
  const administrator = (await panel.client.call(listRoles)).find(({ name }) => name === 'Administrator')?.id ?? ''
  const [plain, chief] = [await account('plain', []), await account('chief', [administrator])]
  await put(clerk, own())
  await forget(chief)
  await until(() => panel.log().includes('the account can do more than the one who set the mail server'))
  await forget(plain)
  await until(() => mailsTo(plain) === 1)
  expect(mailsTo(chief)).toBe(0)
  const invite = (email: string, roleIds: string[]) =>
    panel.client.call(inviteUser, { body: { email, roleIds: roleIds as never } })
  expect((await invite('low@example.org', [])).invite).toEqual(expect.objectContaining({ mailed: true, token: null }))
  const high = await invite('high@example.org', [administrator])
  expect(high.invite).toMatchObject({ mailed: false, token: expect.any(String) })
  expect(mailsTo('high@example.org')).toBe(0)
  // Whoever holds more takes over by saving the host again as it is.
  await put(panel.client, { host: '127.0.0.1' })
  const [row] = await panel.client.call(listAuditLogs, { query: { action: 'settings.smtp_update' } })
  expect(row?.details).toEqual({ vouched: { before: ['admin.write'], after: ['*'] } })
  await forget(chief)
  await until(() => mailsTo(chief) === 1)
  for (const body of [{ host: 'evil.example' }, { from: 'evil@example.org' }, { port: 26 }, { host: null }]) {
    const { code, meta } = await refusal(put(clerk, body))
    expect({ code, missing: meta['missing'] }).toEqual({ code: 'PERMISSION_DENIED', missing: ['*'] })
  }
  expect(await put(clerk, { maxMessages: 7, host: '127.0.0.1' })).toMatchObject({ maxMessages: 7 })
})
