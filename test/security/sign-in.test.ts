import { URI } from 'otpauth'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createNodeKeys } from '../../src/daemon/features/fleet/nodes/keys.ts'
import { resendVerification, resetPassword, validateReset, verifyEmail } from '../../src/shared/api/account-recovery.ts'
import { createApiKey } from '../../src/shared/api/api-keys.ts'
import { getMe, login } from '../../src/shared/api/auth.ts'
import { createRole } from '../../src/shared/api/roles.ts'
import { enableTwoFactor, verifyTotp } from '../../src/shared/api/two-factor.ts'
import type { Client } from '../../src/shared/client.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { type AccountsPanel, openSetUpPanel, PASSWORD, person, refusal, serverOf } from '../daemon/accounts-panel.ts'

let panel: AccountsPanel & { admin: Client; adminId: string }
beforeAll(async () => {
  panel = await openSetUpPanel()
})
afterAll(() => panel.close())

const codeOf = async (call: Promise<unknown>): Promise<string> => (await refusal(call)).code
const MINUTE = 60_000

it('a code of the authenticator is good for its own half minute and one to each side', async () => {
  const ann = await person(panel, 'ann', [])
  const { totpURI } = await ann.call(enableTwoFactor, { body: { password: PASSWORD } })
  const totp = URI.parse(totpURI)
  const at = (offsetMs: number): string => totp.generate({ timestamp: panel.clock.nowMs() + offsetMs })
  await ann.call(verifyTotp, { body: { code: at(0) } })
  panel.clock.advance(5 * MINUTE)
  let count = 0
  const sign = async (code: string): Promise<unknown> => {
    count += 1
    const client = panel.client(undefined, `192.0.2.${count}`)
    const { meta } = await refusal(client.call(login, { body: { email: 'ann', password: PASSWORD } }))
    return client.call(verifyTotp, { body: { token: String(meta['token']), code } }).then(
      () => 'in',
      async () => 'out',
    )
  }
  for (const minutes of [-10, 10, -2, 2]) expect([minutes, await sign(at(minutes * MINUTE))]).toEqual([minutes, 'out'])
  expect(await sign(at(-30_000))).toBe('in')
  expect(await sign(at(30_000))).toBe('in')
})

it('a token that confirms an address sets no password, and one that resets confirms none', async () => {
  const client = await person(panel, 'ben', [])
  await panel.db.write(async ({ q }) => {
    await q.updateTable('user').set({ emailVerified: 0 }).where('id', '=', client.id).execute()
  })
  panel.post.configured = true
  await client.call(resendVerification)
  const token = /^Token: (.+)$/m.exec((await panel.allMails()).at(-1)?.text ?? '')?.[1] ?? ''
  expect(token.length).toBeGreaterThan(20)
  expect(await panel.client().call(validateReset, { query: { token } })).toEqual({ valid: false })
  expect(await codeOf(panel.client().call(resetPassword, { body: { token, password: 'Other-horse-22' } }))).toBe(
    'TOKEN_INVALID',
  )
  expect(await panel.client().call(verifyEmail, { query: { token } })).toEqual({ status: true })
  panel.post.configured = false
})

it('the cookie of a session is sent back by nobody but the panel, and read by no script', async () => {
  await person(panel, 'cleo', [])
  const sign = async (headers: Record<string, string>) => {
    const answer = await fetch(`${panel.url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-forwarded-for': '192.0.2.77', ...headers },
      body: JSON.stringify({ email: 'cleo', password: PASSWORD }),
    })
    return (answer.headers.get('set-cookie') ?? '')
      .replace(/panel_session=[^;]+/, 'panel_session=T')
      .split('; ')
      .sort()
  }
  expect(await sign({})).toEqual(['HttpOnly', 'Path=/', 'SameSite=Lax', 'panel_session=T'])
  const secure = await sign({ 'x-forwarded-proto': 'https', 'x-forwarded-host': '127.0.0.1' })
  expect(secure).toEqual(['HttpOnly', 'Path=/', 'SameSite=Lax', 'Secure', 'panel_session=T'])
})

describe('a password', () => {
  it('is kept by Argon2id with 19 MiB and two passes', async () => {
    const dora = await person(panel, 'dora', [])
    const row = await panel.db.read
      .selectFrom('user')
      .select('passwordHash')
      .where('id', '=', dora.id)
      .executeTakeFirst()
    expect(row?.passwordHash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/)
  })

  it('costs as much work for an account that is not there', async () => {
    await person(panel, 'emil', [])
    const times = { known: [] as number[], unknown: [] as number[] }
    for (let i = 0; i < 12; i++) {
      for (const [kind, email] of [
        ['known', 'emil'],
        ['unknown', `nobody${i}`],
      ] as const) {
        // biome-ignore format: pairs
        const client = panel.client(undefined, `198.51.100.${i * 2 + (kind === 'known' ? 0 : 1)}`)
        const before = performance.now()
        expect(await codeOf(client.call(login, { body: { email, password: 'a guess' } }))).toBe('INVALID_CREDENTIALS')
        times[kind].push(performance.now() - before)
      }
    }
    const least = (list: readonly number[]): number => Math.min(...list)
    expect(least(times.unknown)).toBeGreaterThan(least(times.known) / 2)
  })
})

describe('what one may pass on is looked at again when the write has its turn', () => {
  const late = { name: 'late', permissions: ['node.read' as const] }
  const grants = [
    { what: 'for a role', name: 'finn', grant: (client: Client) => client.call(createRole, { body: late }) },
    { what: 'for a key', name: 'gina', grant: (client: Client) => client.call(createApiKey, { body: late }) },
  ]

  it.each(grants)('$what', async ({ name, grant }) => {
    const held = ['role.create', 'apikey.manage']
    const giver = await person(panel, name, [...held, 'node.read'])
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const busy = panel.db.write(async (tx) => {
      await released
      const permissions = JSON.stringify(held)
      await tx.q.updateTable('role').set({ permissions }).where('id', '=', giver.roleId).execute()
      tx.onCommit(() => panel.credentials.changed())
    })
    const asked = refusal(grant(giver))
    // Requests behind it that are answered: it has been admitted, and waits for the write that is held.
    for (let i = 0; i < 5; i++) await giver.call(getMe)
    // A commit takes in what comes in its first 20 ms; of two changes in one commit neither comes before the other.
    await systemClock.sleep(25)
    release()
    await busy
    expect(await asked).toMatchObject({ code: 'PERMISSION_DENIED', meta: { missing: ['node.read'] } })
  })
})

it('the key of a node opens nothing of the API, in no disguise, and a key of the API no node', async () => {
  const serverId = await serverOf(panel, panel.adminId)
  const row = await panel.db.read.selectFrom('server').select('nodeId').where('id', '=', serverId).executeTakeFirst()
  const nodeId = row?.nodeId ?? ''
  const keys = createNodeKeys({ db: panel.db, clock: panel.clock })
  const key = await panel.db.write((tx) => keys.issue(tx, nodeId))
  expect(await keys.verify(nodeId, key)).toBe('ok')
  for (const token of [key, `pak${key.slice(3)}`, `pst${key.slice(3)}`]) {
    expect(await codeOf(panel.client(token).call(getMe))).toBe('UNAUTHENTICATED')
    const cookie = await fetch(`${panel.url}/api/auth/me`, { headers: { cookie: `panel_session=${token}` } })
    expect(cookie.status).toBe(401)
  }
  const { token } = await panel.client().call(login, { body: { email: 'root', password: PASSWORD } })
  expect(await keys.verify(nodeId, token)).toBe('unknown')
  expect(await keys.verify(nodeId, `pnk${token.slice(3)}`)).toBe('unknown')
})
