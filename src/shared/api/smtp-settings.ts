import { z } from 'zod'
import { defineEndpoint } from '../kernel/contract.ts'
import { Locked } from '../kernel/locked-settings.ts'
import { HostName, OneLine, Sender } from '../kernel/setting-values.ts'
import { Email } from './auth.ts'

/**
 * The mail server. `null` is the default: port 465 with `secure`, else 587; `secure` on port 465; `requireTls`
 * for every host but this machine; a pool of 5 connections with 100 messages each; the user name as the sender.
 */
export const SmtpSettings = z.object({
  host: z.string().nullable(),
  port: z.int().nullable(),
  username: z.string().nullable(),
  /** The mask, or `null`: never the password. */
  password: z.string().nullable(),
  from: z.string().nullable(),
  replyTo: z.string().nullable(),
  /** TLS from the first byte. */
  secure: z.boolean().nullable(),
  /** STARTTLS must succeed before anything is sent. */
  requireTls: z.boolean().nullable(),
  pool: z.boolean().nullable(),
  maxConnections: z.int().nullable(),
  maxMessages: z.int().nullable(),
  locked: Locked,
})
export type SmtpSettings = z.infer<typeof SmtpSettings>

export const getSmtpSettings = defineEndpoint({
  id: 'settings.smtp_get',
  tag: 'Admin',
  summary: 'Show the mail server, the password masked',
  method: 'GET',
  path: '/api/admin/smtp',
  access: { panel: 'admin.read' },
  response: SmtpSettings,
})

export const updateSmtpSettings = defineEndpoint({
  id: 'settings.smtp_update',
  tag: 'Admin',
  summary: 'Change the mail server; what is not named stays, null is the default',
  method: 'PUT',
  path: '/api/admin/smtp',
  access: { panel: 'admin.write' },
  /** Who sets it vouches for mails with tokens: they bring nobody more rights than the setter holds, and a new setter may not hold less than the one before. */
  body: z
    .object({
      host: HostName.nullable(),
      port: z.int().min(1).max(65_535).nullable(),
      username: OneLine.min(1).max(254).nullable(),
      /** `********` keeps the stored one, `null` removes it. */
      password: z.string().min(1).max(1024).nullable(),
      from: Sender.nullable(),
      replyTo: Sender.nullable(),
      secure: z.boolean().nullable(),
      requireTls: z.boolean().nullable(),
      pool: z.boolean().nullable(),
      maxConnections: z.int().min(1).max(100).nullable(),
      maxMessages: z.int().min(1).max(10_000).nullable(),
    })
    .partial(),
  ignores: ['locked'],
  response: SmtpSettings,
  errors: ['SETTING_LOCKED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING', 'PERMISSION_DENIED'],
  audit: { action: 'settings.smtp_update', resource: 'system' },
})

/** How a test mail went; a server that cannot be used is an answer, not a failure of the request. */
export const SmtpTestResult = z.object({
  ok: z.boolean(),
  to: z.string(),
  code: z.enum(['MAIL_FAILED', 'MAIL_NOT_CONFIGURED', 'CREDENTIAL_ENCRYPTION_KEY_MISSING']).optional(),
  error: z.string().optional(),
})
export type SmtpTestResult = z.infer<typeof SmtpTestResult>

export const testSmtpSettings = defineEndpoint({
  id: 'settings.smtp_test',
  tag: 'Admin',
  summary: 'Send a test mail, to yourself unless an address is given',
  method: 'POST',
  path: '/api/admin/smtp/test',
  access: { panel: 'admin.write' },
  body: z.object({ to: Email.optional() }).optional(),
  response: SmtpTestResult,
  audit: { action: 'settings.smtp_test', resource: 'system' },
})
