import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createServerInvite, getServerInvite } from '../../src/shared/api/access.ts'
import { createAlertRule } from '../../src/shared/api/alert-rules.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { changePassword, login } from '../../src/shared/api/auth.ts'
import { createDeploymentToken, createNodeKey, enrollAgent } from '../../src/shared/api/nodes.ts'
import { configurePlugin } from '../../src/shared/api/plugins.ts'
import { putProvider } from '../../src/shared/api/providers.ts'
import { updateModManagerSettings } from '../../src/shared/api/settings.ts'
import { updateSmtpSettings } from '../../src/shared/api/smtp-settings.ts'
import { acceptUserInvite, inviteUser } from '../../src/shared/api/users.ts'
import { createWebhook, testWebhook, updateWebhook } from '../../src/shared/api/webhooks.ts'
import { endpoints } from '../../src/shared/endpoints.ts'
import { ProviderId } from '../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { callEndpoint, type Reply, send } from './http-call.ts'
import { buildWorld, HOST_PASSWORD, keyWith, PASSWORD, paramsOf, type World } from './world.ts'

const SETUP_TOKEN = 'setup-token-that-must-not-be-seen'
const NEW_PASSWORD = 'Quite-another-horse-22'
const MAIL_PASSWORD = 'Mail-horse-that-is-sealed-44'
const CLIENT_SECRET = 'Client-horse-that-is-sealed-55'
const PLUGIN_SECRET = 'Plugin-horse-that-is-sealed-55'
const CATALOGUE_KEY = '$2a$10$catalogue-key-that-is-sealed'
const CHAT_TOKEN = 'token-of-a-chat-that-lets-everybody-post'
const HOOK_SECRET = 'secret-that-somebody-chose-for-a-hook'
const WRONG_PASSWORD = 'Wrong-horse-that-was-typed-33'

let panel: TestPanel
let world: World
beforeAll(async () => {
  panel = await startPanel({ env: { PANEL_SETUP_TOKEN: SETUP_TOKEN } })
  world = await buildWorld(panel)
})
afterAll(() => panel.close())

it('keeps every secret out of its log, its database and all later answers', { timeout: 60_000 }, async () => {
  const secrets = await driveSecrets()
  const later: Reply[] = []
  for (const one of endpoints.filter(({ method }) => method === 'GET')) {
    later.push(await callEndpoint(panel.url, one, { params: paramsOf(world, one) }, { token: panel.adminToken }))
  }
  const answers = later.map(({ text }) => text).join('\n')
  const log = panel.log()
  const database = await readAll(join(panel.dataDir, 'db'))
  expect(answers).toContain('powerless@example.org')
  expect(log).toContain('auth.login')
  expect(database).toContain('powerless@example.org')
  for (const [name, secret] of Object.entries(secrets)) {
    expect(secret.length, name).toBeGreaterThan(12)
    for (const [place, text] of Object.entries({ answers, log, database })) {
      expect(text.includes(secret), `${name} stands in the ${place}`).toBe(false)
      expect(text.includes(Buffer.from(secret).toString('base64')), `${name} stands in the ${place}, as base64`).toBe(
        false,
      )
    }
  }
})

/** Uses every kind of secret in every way that a careless line of code could keep; answers their secret parts. */
async function driveSecrets(): Promise<Record<string, string>> {
  const email = 'powerless@example.org'
  const anonymous = panel.as(undefined)
  const { token: session } = await anonymous.call(login, { body: { email, password: PASSWORD } })
  await panel.as(session).call(changePassword, { body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD } })
  const key = await keyWith(panel, ['server.read'])
  const params = { nodeId: world.ids['nodeId'] ?? '' }
  const { deploymentToken } = await panel.client.call(createDeploymentToken, { params })
  const { apiKey: enrolled } = await anonymous.call(enrollAgent, { body: { deploymentToken } })
  const { apiKey: rotated } = await panel.client.call(createNodeKey, { params, body: { regenerate: true } })
  const idempotent = await send({
    method: 'POST',
    url: `${panel.url}/api/admin/api-keys`,
    token: panel.adminToken,
    headers: { 'idempotency-key': 'the-key-that-seals-an-answer' },
    body: { name: 'sealed', permissions: [] },
  })
  const { key: sealed } = createApiKey.response.parse(idempotent.json?.data)
  await panel.client.call(updateSmtpSettings, { body: { host: '127.0.0.1', port: 9, password: MAIL_PASSWORD } })
  const provider = { clientId: 'panel', clientSecret: CLIENT_SECRET, discoveryUrl: 'https://id.example.org' }
  await panel.client.call(putProvider, { params: { providerId: ProviderId.parse('sealed') }, body: provider })
  const config = { signature: PLUGIN_SECRET }
  await panel.client.call(configurePlugin, { params: { name: 'greeter' }, body: { config } })
  await panel.client.call(updateModManagerSettings, { body: { curseforgeApiKey: CATALOGUE_KEY } })
  const hook = { name: 'chat', url: `http://127.0.0.1:9/api/hooks/${CHAT_TOKEN}`, format: 'slack' as const }
  const { id: webhookId, secret: hookSecret } = await panel.client.call(createWebhook, { body: hook })
  await panel.client.call(testWebhook, { params: { webhookId } })
  await panel.client.call(updateWebhook, { params: { webhookId }, body: { secret: HOOK_SECRET } })
  const away = { name: 'away', type: 'node_offline' as const, target: 'global' as const }
  const url = `https://discord.com/api/webhooks/1/${CHAT_TOKEN}`
  const { webhookSecret } = await panel.client.call(createAlertRule, {
    body: { ...away, actions: { webhooks: [url] } },
  })
  await send({ method: 'POST', url: `${panel.url}/api/auth/login`, body: { email, password: WRONG_PASSWORD } })
  await send({
    method: 'POST',
    url: `${panel.url}/api/auth/login`,
    body: `{"email":"${email}","password":"${WRONG_PASSWORD}`,
  })
  await send({ method: 'POST', url: `${panel.url}/api/agent/enroll`, body: { deploymentToken } })
  await send({ method: 'POST', url: `${panel.url}/api/setup/complete`, body: { setupToken: SETUP_TOKEN } })
  await send({ method: 'GET', url: `${panel.url}/api/servers`, headers: { cookie: `panel_session=${session}` } })
  const { invite } = await panel.client.call(inviteUser, { body: { email: 'guest-2@example.org' } })
  const userInvite = invite.token ?? ''
  await anonymous.call(acceptUserInvite, { body: { token: userInvite, password: NEW_PASSWORD } })
  const request = { email: 'guest-3@example.org', permissions: ['server.read' as const] }
  const made = await panel.client.call(createServerInvite, {
    params: { serverId: world.ids['serverId'] ?? '' },
    body: request,
  })
  const serverInvite = made.token ?? ''
  await anonymous.call(getServerInvite, { params: { token: serverInvite } })
  await send({ method: 'GET', url: `${panel.url}/api/servers/invites/${serverInvite}x` })
  return {
    userInvite,
    serverInvite,
    password: PASSWORD,
    newPassword: NEW_PASSWORD,
    wrongPassword: WRONG_PASSWORD,
    setupToken: SETUP_TOKEN,
    mailPassword: MAIL_PASSWORD,
    catalogueKey: CATALOGUE_KEY,
    clientSecret: CLIENT_SECRET,
    chatToken: CHAT_TOKEN,
    hookSecret: hookSecret ?? '',
    givenHookSecret: HOOK_SECRET,
    ruleSecret: webhookSecret ?? '',
    hostPassword: HOST_PASSWORD,
    pluginSecret: PLUGIN_SECRET,
    adminKey: secretPart(panel.adminToken),
    session: secretPart(session),
    key: secretPart(key),
    sealed: secretPart(sealed),
    idempotencyKey: 'the-key-that-seals-an-answer',
    deploymentToken: secretPart(deploymentToken),
    enrolled: secretPart(enrolled),
    rotated: secretPart(rotated),
  }
}

/** Tokens end with 43 characters of secret; what stands before names the row. */
function secretPart(token: string): string {
  return token.slice(-43)
}

async function readAll(folder: string): Promise<string> {
  const names = await readdir(folder)
  const files = await Promise.all(names.map((name) => readFile(join(folder, name), 'latin1')))
  return files.join('\n')
}
