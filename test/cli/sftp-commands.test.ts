import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { publicKeyLine } from '../contract/sftp-session.ts'
import { openClient } from '../daemon/servers/sftp-client.ts'
import { SftpStage } from '../daemon/servers/sftp-stage.ts'
import { commandWalk, runBriefly } from './command-walk.ts'
import { SFTP } from './sftp-paths.ts'

let stage: SftpStage
const walk = commandWalk<{ readonly input?: string }>(
  () => SFTP,
  (args, options = {}) => {
    const env = { HOME: stage.panel.home, PANEL_URL: stage.panel.url, PANEL_TOKEN: stage.owner.token }
    return runBriefly(args, { ...options, env })
  },
)
const { ok, json, refused } = walk

beforeAll(async () => {
  stage = await SftpStage.enter()
})
afterAll(() => stage?.close())

it('keys, tokens and sessions by the command line', async () => {
  const line = publicKeyLine()
  const file = stage.write('id.pub', `${line}\n`)
  expect(await json(['profile', 'ssh-keys', 'add', file])).toMatchObject({ name: 'made for a test', readOnly: false })
  await refused(7, ['profile', 'ssh-keys', 'add', file])
  await refused(8, ['profile', 'ssh-keys', 'add', '-'], { input: 'no key' })
  await ok(['profile', 'ssh-keys', 'add', '-', '--name', 'backup', '--read-only'], { input: publicKeyLine() })
  expect(await ok(['profile', 'ssh-keys', 'list', '-o', 'name'])).toBe('backup\nmade for a test\n')
  await ok(['profile', 'ssh-keys', 'delete', 'backup', '--yes'])
  await refused(6, ['profile', 'ssh-keys', 'delete', 'backup', '--yes'])

  const info = await json(['sftp', 'info', 'survival', '--ttl', '1h'])
  expect(info).toMatchObject({ enabled: true, port: stage.port, username: stage.user, ttlMs: 3_600_000 })
  expect(await json(['sftp', 'info', 'survival', '--no-token'])).toMatchObject({ sftpPassword: null, expiresAt: null })
  expect(await ok(['sftp', 'tokens', 'survival', '-o', 'name'])).toContain('anna')
  const open = await openClient(stage, { password: info.sftpPassword })
  const [session] = await json(['sftp', 'sessions', 'survival'])
  expect(session).toMatchObject({ username: 'anna', method: 'token', readOnly: false })
  await ok(['sftp', 'end', session.id, '--yes'])
  await open.closed
  await refused(6, ['sftp', 'end', session.id, '--yes'])

  const password = (await ok(['sftp', 'rotate', 'survival', '--yes'])).trim()
  const again = await openClient(stage, { password })
  await ok(['sftp', 'revoke', 'survival', '--yes'])
  await again.closed
  await refused(6, ['sftp', 'revoke', 'survival', '--yes'])
  await ok(['sftp', 'revoke', 'survival', '--all', '--yes'])
  await refused(2, ['sftp', 'revoke', 'survival', '--all', '--user', 'anna', '--yes'])

  expect(await ok(['servers', 'ssh-command', 'survival'])).toBe(`ssh -p ${stage.port} ${stage.user}@127.0.0.1\n`)
  expect(await ok(['servers', 'ssh-command', 'survival', '--sftp'])).toBe(
    `sftp -P ${stage.port} ${stage.user}@127.0.0.1\n`,
  )
  expect(walk.left()).toEqual([])
  expect(readFileSync(file, 'utf8')).toContain(line)
}, 60_000)
