import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { completeSetup } from '../../../src/shared/api/auth.ts'
import { getSecuritySettings, updateSecuritySettings } from '../../../src/shared/api/security-settings.ts'
import * as api from '../../../src/shared/api/settings.ts'
import { getSmtpSettings, testSmtpSettings, updateSmtpSettings } from '../../../src/shared/api/smtp-settings.ts'
import { getPublicTheme, getThemeSettings, updateThemeSettings } from '../../../src/shared/api/theme-settings.ts'
import { SECURITY_NUMBERS } from '../../../src/shared/kernel/security-numbers.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { ConsoleReader } from '../console-reader.ts'
import { refusal } from '../place-panel.ts'

const MASK = '********'

let panel: TestPanel
let events: ConsoleReader
beforeAll(async () => {
  panel = await startPanel()
  events = new ConsoleReader(`${panel.url}/api/admin/events`, panel.adminToken)
  await events.until('the greeting', (reader) => reader.of('connected')[0])
})
afterAll(async () => {
  events.close()
  await panel.close()
})

const audit = (action: string) => panel.client.call(listAuditLogs, { query: { action } })

describe('security settings', () => {
  it('have the defaults of the table, and say which are fixed', async () => {
    const { locked, ...shown } = await panel.client.call(getSecuritySettings)
    const numbers = Object.entries(SECURITY_NUMBERS).map(([field, row]) => [field, row.default])
    const defaults = { ...Object.fromEntries(numbers), registrationEnabled: false }
    // The test's own panel has these two raised by its environment.
    expect(shown).toEqual({ ...defaults, authRateLimitMax: 1_000_000, requestRateLimitMax: 1_000_000 })
    expect(locked).toEqual({ authRateLimitMax: 'env', requestRateLimitMax: 'env' })
  })

  it('change by themselves, audited with before and after, announced', async () => {
    const before = await panel.client.call(getSecuritySettings)
    const after = await panel.client.call(updateSecuritySettings, { body: { lockoutMaxAttempts: 7 } })
    expect(after).toEqual({ ...before, lockoutMaxAttempts: 7 })
    const [row] = await audit('settings.security_update')
    expect(row).toMatchObject({
      resource: 'system',
      resourceId: 'security',
      details: { lockoutMaxAttempts: { before: 5, after: 7 } },
    })
    const event = await events.until('the event', (reader) => reader.of('security_settings_updated')[0])
    expect(event.data).toMatchObject({ updatedBy: row?.userId })
  })

  it('leave nothing behind when nothing changes', async () => {
    const before = await panel.client.call(getSecuritySettings)
    const rows = await audit('settings.security_update')
    const { locked: _, ...same } = before
    // All of them, the fixed ones as well: a form sends back what it was given.
    expect(await panel.client.call(updateSecuritySettings, { body: same })).toEqual(before)
    await panel.client.call(updateSecuritySettings, { body: {} })
    expect(await audit('settings.security_update')).toHaveLength(rows.length)
  })

  it.each([
    ['zero', { lockoutMaxAttempts: 0 }],
    ['a fraction', { lockoutMaxAttempts: 1.5 }],
    ['text', { lockoutMaxAttempts: '5' }],
    ['more than the hard limit', { fileTunnelMaxUploadMb: 501 }],
    ['fewer bytes than a page of the console', { consoleOutputByteLimitBytes: 65_535 }],
  ])('refuse %s and name the field', async (_, body) => {
    const field = `body.${Object.keys(body)[0]}`
    expect(await refusal(panel.client.call(updateSecuritySettings, { body: body as never }))).toMatchObject({
      code: 'VALIDATION_ERROR',
      fields: [field],
    })
  })

  it('refuse a change of a fixed one and change nothing else with it', async () => {
    const body = { auditRetentionDays: 30, requestRateLimitMax: 100 }
    expect(await refusal(panel.client.call(updateSecuritySettings, { body }))).toMatchObject({
      code: 'SETTING_LOCKED',
      meta: { source: 'env', name: 'PANEL_LIMITS__REQUESTS_PER_MINUTE' },
    })
    expect((await panel.client.call(getSecuritySettings)).auditRetentionDays).toBe(90)
  })

  it('keep every one of many changes at the same time', async () => {
    const fields = ['lockoutWindowMinutes', 'lockoutDurationMinutes', 'consoleLogMb', 'streamsPerUserMax'] as const
    await Promise.all(fields.map((field) => panel.client.call(updateSecuritySettings, { body: { [field]: 33 } })))
    const shown = await panel.client.call(getSecuritySettings)
    expect(fields.map((field) => shown[field])).toEqual([33, 33, 33, 33])
  })
})

describe('the mail server', () => {
  const put = (body: object) => panel.client.call(updateSmtpSettings, { body })

  it('is empty at first, and cannot send', async () => {
    const { locked, ...shown } = await panel.client.call(getSmtpSettings)
    expect([...new Set(Object.values(shown))]).toEqual([null])
    expect(locked).toEqual({})
    expect(await panel.client.call(testSmtpSettings, { body: { to: 'eve@example.org' } })).toMatchObject({
      ok: false,
      code: 'MAIL_NOT_CONFIGURED',
    })
  })

  it('takes its password and never shows it again; the mask keeps it, null removes it', async () => {
    const secret = 'correct horse battery staple'
    const first = await put({ host: 'mail.example.org', username: 'panel@example.org', password: secret })
    expect(first).toMatchObject({ host: 'mail.example.org', password: MASK, requireTls: null })
    const rows = (await audit('settings.smtp_update')).length
    expect(await put({ password: MASK })).toMatchObject({ password: MASK })
    expect(await put({ password: secret })).toMatchObject({ password: MASK })
    expect(await audit('settings.smtp_update')).toHaveLength(rows)
    expect(await put({ host: 'other.example.org', password: MASK })).toMatchObject({ password: MASK })
    await put({ password: 'another one altogether' })
    expect(await put({ password: null })).toMatchObject({ password: null, username: 'panel@example.org' })
    const all = JSON.stringify([await audit('settings.smtp_update'), panel.log(), events.frames])
    expect(all).toContain('other.example.org')
    expect(all).not.toContain(secret)
    expect(all).not.toContain('another one altogether')
    await events.until('the event', (reader) => reader.of('smtp_settings_updated')[0])
  })

  it.each([
    ['a host that is none', { host: 'two words' }, 'body.host'],
    ['an empty host', { host: '' }, 'body.host'],
    ['a port out of range', { port: 65_536 }, 'body.port'],
    ['a sender over two lines', { from: 'a@example.org\r\nBcc: b@example.org' }, 'body.from'],
    ['two senders', { from: 'a@example.org, b@example.org' }, 'body.from'],
    ['a user name over two lines', { username: 'a\nb' }, 'body.username'],
    ['an empty password', { password: '' }, 'body.password'],
    ['both kinds of TLS', { secure: true, requireTls: true }, 'body.requireTls'],
    ['port 465 without TLS', { port: 465, secure: false }, 'body.secure'],
    ['a password in clear', { host: 'mail.example.org', username: 'u', requireTls: false }, 'body.requireTls'],
    ['too many connections', { maxConnections: 101 }, 'body.maxConnections'],
  ])('refuses %s', async (_, body, field) => {
    expect(await refusal(put(body))).toMatchObject({ code: 'VALIDATION_ERROR', fields: [field] })
  })

  it('lets a user name go in clear to this machine only', async () => {
    expect(await put({ host: '127.0.0.1', username: 'u', requireTls: false })).toMatchObject({ requireTls: false })
    expect(await refusal(put({ host: 'mail.example.org' }))).toMatchObject({ fields: ['body.requireTls'] })
  })
})

describe('the theme', () => {
  it('changes field by field and shows everybody the public part', async () => {
    const before = await panel.client.call(getThemeSettings)
    expect(before).toMatchObject({ panelName: 'panel', enabledThemes: ['light', 'dark'], logoUrl: null, metadata: {} })
    const body = {
      panelName: ' Games ',
      logoUrl: 'https://example.org/logo.png',
      primaryColor: '#102030',
      metadata: { themeColors: { border: '#111111' }, footer: { left: 'a', right: 'b' } },
    }
    const after = await panel.client.call(updateThemeSettings, { body })
    expect(after).toMatchObject({ ...body, panelName: 'Games', accentColor: before.accentColor })
    expect(Date.parse(after.updatedAt)).toBeGreaterThanOrEqual(Date.parse(after.createdAt))
    const shown = await panel.as(undefined).call(getPublicTheme)
    expect(shown).toMatchObject({ panelName: 'Games', primaryColor: '#102030', themeColors: { border: '#111111' } })
    expect(shown).not.toHaveProperty('metadata')
    await events.until('the event', (reader) => reader.of('theme_settings_updated')[0])
    expect((await audit('settings.theme_update'))[0]?.details).toMatchObject({
      panelName: { before: 'panel', after: 'Games' },
    })
  })

  it('merges metadata key by key', async () => {
    const body = { metadata: { footer: { left: null, middle: 1 }, more: [1, { a: null }] } }
    const { metadata } = await panel.client.call(updateThemeSettings, { body })
    expect(metadata).toMatchObject({ footer: { right: 'b', middle: 1 }, more: [1, { a: null }] })
    expect(metadata['footer']).not.toHaveProperty('left')
    expect(metadata).toHaveProperty('themeColors')
  })

  it.each([
    ['a script as a picture', { logoUrl: 'javascript:alert(1)' }, 'body.logoUrl'],
    ['another host without a scheme', { faviconUrl: '//evil.example' }, 'body.faviconUrl'],
    ['a colour that is none', { accentColor: 'red' }, 'body.accentColor'],
    ['no theme at all', { enabledThemes: [] }, 'body.enabledThemes'],
    ['a default that is not enabled', { enabledThemes: ['light'], defaultTheme: 'dark' }, 'body.defaultTheme'],
    ['a secret in metadata', { metadata: { oidc: { clientSecret: 'x' } } }, 'body.metadata'],
    ['much metadata', { metadata: { a: 'x'.repeat(17_000) } }, 'body.metadata'],
    ['deep metadata', { metadata: { a: [[[[[[[[[[1]]]]]]]]]] } }, 'body.metadata'],
    ['an empty name', { panelName: '  ' }, 'body.panelName'],
  ])('refuses %s', async (_, body, field) => {
    expect(await refusal(panel.client.call(updateThemeSettings, { body: body as never }))).toMatchObject({
      code: 'VALIDATION_ERROR',
      fields: [field],
    })
  })

  it('refuses metadata that would change what objects are', async () => {
    const response = await fetch(`${panel.url}/api/admin/theme-settings`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${panel.adminToken}`, 'content-type': 'application/json' },
      body: `{"metadata":{"a":{"__proto__":{"admin":true}},"deep":${'['.repeat(50_000)}${']'.repeat(50_000)}}}`,
    })
    expect(response.status).toBe(400)
  })
})

describe('language and time zone', () => {
  it('are public at once, in their canonical spelling', async () => {
    const body = { language: 'pt-br', timezone: 'europe/berlin' }
    expect(await panel.client.call(api.updateLocalizationSettings, { body })).toMatchObject({
      locale: 'pt-BR',
      language: 'pt-BR',
      timezone: 'Europe/Berlin',
      fallbackLocale: 'en',
    })
    const nobody = panel.as(undefined)
    expect(await nobody.call(api.getLocale)).toMatchObject({ locale: 'pt-BR' })
    expect(await nobody.call(api.getPublicSettings)).toMatchObject({
      locale: 'pt-BR',
      timezone: 'Europe/Berlin',
      panelName: 'Games',
      setupRequired: false,
    })
    const { timezone } = await panel.client.call(api.updateLocalizationSettings, { body: { locale: 'de' } })
    expect(timezone).toBe('Europe/Berlin')
    await events.until('the event', (reader) => reader.of('localization_settings_updated')[0])
  })

  it('change by a client that sends back all that it was given, under either name', async () => {
    const change = async (body: { locale?: string; language?: string }) => {
      const all = await panel.client.call(api.getLocalizationSettings)
      return (await panel.client.call(api.updateLocalizationSettings, { body: { ...all, ...body } })).locale
    }
    expect(await change({ locale: 'fr' })).toBe('fr')
    expect(await change({ language: 'it' })).toBe('it')
  })

  it.each([
    ['a language that is none', { locale: 'not a tag' }, 'body.locale'],
    ['two languages', { locale: 'nl', language: 'sv' }, 'body.language'],
    ['a zone that is none', { timezone: 'Mars/Olympus' }, 'body.timezone'],
    ['an offset', { timezone: '+02:00' }, 'body.timezone'],
  ])('refuse %s', async (_, body, field) => {
    const call = panel.client.call(api.updateLocalizationSettings, { body })
    expect(await refusal(call)).toMatchObject({ code: 'VALIDATION_ERROR', fields: [field] })
  })
})

describe('keys of catalogues', () => {
  it('are masked, kept by the mask, removed by null', async () => {
    const put = (body: { curseforgeApiKey?: string | null; modrinthApiKey?: string | null }) =>
      panel.client.call(api.updateModManagerSettings, { body })
    expect(await put({ curseforgeApiKey: '$2a$10$secret-of-curse' })).toEqual({
      curseforgeApiKey: MASK,
      modrinthApiKey: null,
      locked: {},
    })
    expect(await put({ curseforgeApiKey: MASK, modrinthApiKey: 'mrp_secret' })).toMatchObject({ modrinthApiKey: MASK })
    expect(await put({ curseforgeApiKey: null })).toMatchObject({ curseforgeApiKey: null, modrinthApiKey: MASK })
    expect(await refusal(put({ modrinthApiKey: '' }))).toMatchObject({ fields: ['body.modrinthApiKey'] })
    await events.until('the event', (reader) => reader.of('system_settings_updated')[0])
    const [removed] = await audit('settings.mod_manager_update')
    expect(removed?.details).toEqual({ curseforgeApiKey: { before: MASK, after: null } })
    const all = JSON.stringify([await audit('settings.mod_manager_update'), panel.log()])
    expect(all).not.toContain('secret-of-curse')
    expect(all).not.toContain('mrp_secret')
  })
})

describe('without a key for secrets', () => {
  it('keeps no secret, and everything else', async () => {
    const bare = await startPanel({ env: { PANEL_CREDENTIAL_KEY: undefined } })
    try {
      const put = (body: object) => bare.client.call(updateSmtpSettings, { body })
      expect(await refusal(put({ host: 'mail.example.org', password: 'x' }))).toMatchObject({
        code: 'CREDENTIAL_ENCRYPTION_KEY_MISSING',
      })
      expect(await put({ host: 'mail.example.org', password: null })).toMatchObject({ host: 'mail.example.org' })
    } finally {
      await bare.close()
    }
  })
})

describe('file and environment', () => {
  it('fix what they name, secrets too, and survive the set-up', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'panel-fixed-'))
    const secret = join(folder, 'smtp')
    await writeFile(secret, 'from-a-file-4711\n')
    const fixed = await startPanel({
      empty: true,
      env: {
        PANEL_SETUP_TOKEN: 'the-setup-token',
        PANEL_SMTP__HOST: 'mail.example.org',
        PANEL_SMTP__PORT: '2525',
        PANEL_SMTP__PASSWORD_FILE: secret,
        PANEL_PANEL__NAME: 'Fixed',
        PANEL_THEME__ENABLED_THEMES: 'dark',
        PANEL_MOD_MANAGER__MODRINTH_API_KEY: 'mrp_fixed',
      },
    })
    try {
      const { token } = await fixed.client.call(completeSetup, {
        body: {
          setupToken: 'the-setup-token',
          email: 'ada@example.org',
          username: 'ada',
          password: 'correct-Horse-7-battery',
          panelName: 'Renamed',
        },
      })
      const client = fixed.as(token)
      expect(await client.call(getSmtpSettings)).toMatchObject({
        host: 'mail.example.org',
        port: 2525,
        password: MASK,
        locked: { host: 'env', port: 'env', password: 'env' },
      })
      const theme = await client.call(getThemeSettings)
      expect(theme).toMatchObject({ panelName: 'Fixed', enabledThemes: ['dark'], locked: { panelName: 'env' } })
      const refused = (body: object) => refusal(client.call(updateSmtpSettings, { body }))
      for (const [body, name] of [
        [{ host: 'other.example.org' }, 'PANEL_SMTP__HOST'],
        [{ password: 'x' }, 'PANEL_SMTP__PASSWORD_FILE'],
        [{ password: null }, 'PANEL_SMTP__PASSWORD_FILE'],
      ] as const)
        expect(await refused(body)).toMatchObject({ code: 'SETTING_LOCKED', meta: { source: 'env', name } })
      const same = { host: 'mail.example.org', password: MASK, replyTo: 'a@example.org' }
      expect(await client.call(updateSmtpSettings, { body: same })).toMatchObject({ replyTo: 'a@example.org' })
      expect(await client.call(api.getModManagerSettings)).toMatchObject({
        modrinthApiKey: MASK,
        locked: { modrinthApiKey: 'env' },
      })
      const seen = JSON.stringify([await client.call(getSmtpSettings), fixed.log()])
      expect(seen).not.toContain('4711')
    } finally {
      await fixed.close()
      await rm(folder, { recursive: true })
    }
  })
})
