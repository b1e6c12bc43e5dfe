import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { updateLocalizationSettings } from '../../../src/shared/api/settings.ts'
import { testSmtpSettings, updateSmtpSettings } from '../../../src/shared/api/smtp-settings.ts'
import { updateThemeSettings } from '../../../src/shared/api/theme-settings.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { refusal } from '../place-panel.ts'
import { type Certificate, type MailServer, makeCertificate, startMailServer } from './mail-server.ts'

const FROM = 'Panel <panel@example.org>'

let certificate: Certificate
let panel: TestPanel
const servers: MailServer[] = []

beforeAll(async () => {
  certificate = await makeCertificate()
  panel = await startPanel({ env: { PANEL_SMTP__CA_FILE: certificate.file } })
})
afterAll(async () => {
  await panel.close()
  await certificate.remove()
})
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close()
})

async function server(options: Parameters<typeof startMailServer>[0] = {}): Promise<MailServer> {
  const { cert, key } = certificate
  const started = await startMailServer({ cert, key, ...options })
  servers.push(started)
  return started
}

/** Sets the mail server; what is not named is the default. */
function configure(body: Record<string, unknown>) {
  const clear = { username: null, password: null, replyTo: null, secure: null, requireTls: null, pool: null }
  return panel.client.call(updateSmtpSettings, { body: { host: '127.0.0.1', from: FROM, ...clear, ...body } })
}

const send = (to = 'eve@example.org') => panel.client.call(testSmtpSettings, { body: { to } })

describe('a test mail', () => {
  it('goes by STARTTLS with a sign-in, and says who, when and what', async () => {
    const mail = await server()
    await panel.client.call(updateLocalizationSettings, { body: { locale: 'de', timezone: 'Asia/Tokyo' } })
    await panel.client.call(updateThemeSettings, { body: { panelName: 'Spiele' } })
    await configure({
      port: mail.port,
      requireTls: true,
      username: 'panel',
      password: 'let-me-in',
      replyTo: 'help@example.org',
    })
    expect(await send()).toEqual({ ok: true, to: 'eve@example.org' })
    expect(mail.received).toMatchObject([
      { from: 'panel@example.org', to: ['eve@example.org'], secure: true, user: 'panel' },
    ])
    const text = mail.received[0]?.text ?? ''
    expect(text).toMatch(/^From: Panel <panel@example\.org>$/m)
    expect(text).toMatch(/^To: eve@example\.org$/m)
    expect(text).toMatch(/^Reply-To: help@example\.org$/m)
    expect(text).toMatch(/^Subject: Spiele: test mail$/m)
    expect(text).toContain('GMT+9')
    const [row] = await panel.client.call(listAuditLogs, { query: { action: 'settings.smtp_test' } })
    expect(row?.details).toMatchObject({ to: 'eve@example.org', ok: true })
  })

  it('goes by TLS from the first byte', async () => {
    const mail = await server({ secure: true })
    await configure({ port: mail.port, secure: true })
    expect(await send()).toMatchObject({ ok: true })
    expect(mail.received).toMatchObject([{ secure: true, user: undefined }])
  })

  it('goes in clear to this machine when nothing else is offered, and never when TLS is required', async () => {
    const mail = await server({ disabledCommands: ['STARTTLS'] })
    await configure({ port: mail.port })
    expect(await send()).toMatchObject({ ok: true })
    expect(mail.received).toMatchObject([{ secure: false }])
    await configure({ port: mail.port, requireTls: true })
    expect(await send()).toMatchObject({ ok: false, code: 'MAIL_FAILED', error: expect.stringContaining('STARTTLS') })
    expect(mail.received).toHaveLength(1)
  })

  it('goes by STARTTLS where it is offered and not required, whoever has signed the certificate', async () => {
    const other = await makeCertificate()
    try {
      const mail = await server({ cert: other.cert, key: other.key })
      await configure({ port: mail.port })
      expect(await send()).toMatchObject({ ok: true })
      expect(mail.received).toMatchObject([{ secure: true }])
    } finally {
      await other.remove()
    }
  })

  it('needs an address when the account has none', async () => {
    const call = panel.client.call(testSmtpSettings, { body: {} })
    expect(await refusal(call)).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.to'] })
  })

  it.each(['a@example.org, b@example.org', 'a@example.org\r\nBcc: b@example.org', 'Eve <a@example.org>'])(
    'is not sent to %j',
    async (to) => {
      expect(await refusal(send(to))).toMatchObject({ code: 'VALIDATION_ERROR', fields: ['body.to'] })
    },
  )
})

describe('connections', () => {
  it('are kept for the next message, and made anew as soon as the settings change', async () => {
    const [first, second] = [await server(), await server()]
    await configure({ port: first.port })
    for (const _ of [1, 2, 3]) expect(await send()).toMatchObject({ ok: true })
    expect(new Set(first.received.map(({ session }) => session)).size).toBe(1)
    await configure({ port: second.port })
    expect(await send()).toMatchObject({ ok: true })
    expect([first.received.length, second.received.length]).toEqual([3, 1])
    await until(() => first.connections() === 0)
  })

  it('serve one message each without a pool', async () => {
    const mail = await server()
    await configure({ port: mail.port, pool: false })
    for (const _ of [1, 2]) expect(await send()).toMatchObject({ ok: true })
    expect(new Set(mail.received.map(({ session }) => session)).size).toBe(2)
    await until(() => mail.connections() === 0)
  })

  it('end with the daemon', async () => {
    const mail = await server()
    const env = {
      PANEL_SMTP__CA_FILE: certificate.file,
      PANEL_SMTP__HOST: '127.0.0.1',
      PANEL_SMTP__PORT: String(mail.port),
      PANEL_SMTP__FROM: 'a@example.org',
    }
    const other = await startPanel({ env })
    expect(await other.client.call(testSmtpSettings, { body: { to: 'eve@example.org' } })).toMatchObject({ ok: true })
    expect(mail.connections()).toBe(1)
    await other.close()
    await until(() => mail.connections() === 0)
  })
})

describe('a failure says what to do', () => {
  const fails = async (sentence: RegExp) => {
    const answer = await send()
    expect(answer).toMatchObject({ ok: false, code: 'MAIL_FAILED', error: expect.stringMatching(sentence) })
  }

  it('when the name of the server is not known', async () => {
    await configure({ host: 'mail.invalid', port: 25 })
    await fails(/the name mail\.invalid is not known; check the host/)
  })

  it('when nothing listens', async () => {
    await configure({ port: await closedPort() })
    await fails(/nothing listens on 127\.0\.0\.1 port \d+; check host and port/)
  })

  it('when the sign-in is denied, without the password', async () => {
    const mail = await server()
    await configure({ port: mail.port, username: 'panel', password: 'wrong-password-9' })
    await fails(/denies the sign-in; check user name and password: 535/)
    expect(panel.log()).not.toContain('wrong-password-9')
    // A name without a password is tried without one, and told the same way.
    await configure({ port: mail.port, username: 'panel' })
    await fails(/denies the sign-in/)
  })

  it('when the recipient is not taken', async () => {
    const mail = await server()
    await configure({ port: mail.port })
    expect(await send('nobody@example.org')).toMatchObject({
      ok: false,
      error: expect.stringMatching(/does not take mail for this recipient: 550 No such user here/),
    })
    expect(await send()).toMatchObject({ ok: true })
  })

  it('when the sender is not taken', async () => {
    const mail = await server({
      onMailFrom: (_address, _session, done) => done(Object.assign(new Error('Not you'), { responseCode: 553 })),
    })
    await configure({ port: mail.port })
    await fails(/does not take mail from this sender; check the sender: 553 Not you/)
  })

  it('when the message is not taken', async () => {
    const mail = await server({
      onData: (stream, _session, done) => {
        stream.resume().on('end', () => done(Object.assign(new Error('Mailbox full'), { responseCode: 452 })))
      },
    })
    await configure({ port: mail.port })
    await fails(/does not take it: 452 Mailbox full/)
  })

  it('when the port does not speak TLS from the first byte', async () => {
    const mail = await server()
    await configure({ port: mail.port, secure: true })
    await fails(/turn secure off/)
  })

  it('when nobody trusts the certificate, and names the setting that would', async () => {
    const other = await makeCertificate()
    try {
      for (const secure of [true, false]) {
        const mail = await server({ cert: other.cert, key: other.key, secure })
        await configure({ port: mail.port, secure, requireTls: !secure })
        await fails(/signed by nobody who is trusted; name its authority with smtp\.caFile/)
        expect(mail.received).toEqual([])
      }
    } finally {
      await other.remove()
    }
  })

  it('when the server hangs up', async () => {
    const rude = createServer((socket) => socket.destroy())
    rude.listen(0, '127.0.0.1')
    await once(rude, 'listening')
    await configure({ port: (rude.address() as AddressInfo).port })
    await fails(/the connection to 127\.0\.0\.1 port \d+ has failed/)
    await new Promise((resolve) => rude.close(resolve))
  })
})

/** A port that was free a moment ago. */
async function closedPort(): Promise<number> {
  const probe = createServer()
  probe.listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo // it listens on TCP
  await new Promise((resolve) => probe.close(resolve))
  return port
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = systemClock.monotonicMs() + 10_000
  while (!holds()) {
    if (systemClock.monotonicMs() > deadline) throw new Error('it did not come to pass')
    await systemClock.sleep(20)
  }
}
