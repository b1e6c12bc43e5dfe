import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { URI } from 'otpauth'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { removeServerAccess, setServerAccess } from '../../../src/shared/api/access.ts'
import { createApiKey, deleteApiKey, updateApiKey } from '../../../src/shared/api/api-keys.ts'
import { changePassword } from '../../../src/shared/api/auth.ts'
import { createBackup, restoreBackup } from '../../../src/shared/api/backups.ts'
import { getJob } from '../../../src/shared/api/jobs.ts'
import { startServer } from '../../../src/shared/api/power.ts'
import { putProvider } from '../../../src/shared/api/providers.ts'
import { getServer } from '../../../src/shared/api/servers.ts'
import {
  endSftpSession,
  listSftpSessions,
  listSftpTokens,
  revokeUserSftpTokens,
  rotateSftpToken,
  sftpInfo,
} from '../../../src/shared/api/sftp.ts'
import { addSshKey, deleteSshKey, listSshKeys } from '../../../src/shared/api/ssh-keys.ts'
import { suspendServer } from '../../../src/shared/api/suspension.ts'
import { enableTwoFactor, verifyTotp } from '../../../src/shared/api/two-factor.ts'
import { banUser, deleteUser } from '../../../src/shared/api/users.ts'
import { ProviderId } from '../../../src/shared/kernel/ids.ts'
import { publicKeyLine } from '../../contract/sftp-session.ts'
import { skippedUnless } from '../../skips.ts'
import { eventually } from '../gateway-stage.ts'
import { openClient } from './sftp-client.ts'
import { has, PASSWORD, type SftpPerson, SftpStage } from './sftp-stage.ts'

const RUNS = has('sftp', 'ssh', 'scp', 'ssh-keygen', 'sshpass')
const WHY_NOT = skippedUnless(RUNS, 'openssh-client and sshpass')

describe.skipIf(!RUNS)(`files over SFTP${WHY_NOT}`, () => {
  let stage: SftpStage

  beforeAll(async () => {
    stage = await SftpStage.enter({ startup: 'echo ready; while read line; do echo "got $line"; done' })
  })
  afterAll(() => stage?.close())

  test('who has the password of the account lists, gets and puts files, and the session leaves two records', async () => {
    writeFileSync(join(stage.folder, 'server.properties'), 'motd=hello\n')
    const got = join(stage.local, 'got')
    const sent = stage.write('sent', 'level=world\n')
    const ended = await stage.sftp([
      'ls -l /',
      `get server.properties ${got}`,
      `put ${sent} level.txt`,
      'mkdir maps',
      'rename level.txt maps/level.txt',
      'ln -s level.txt maps/link',
      'chmod 600 maps/level.txt',
      'rm maps/link',
      'df /',
    ])
    expect(ended).toMatchObject({ status: 0, err: '' })
    expect(ended.out).toContain('server.properties')
    expect(readFileSync(got, 'utf8')).toBe('motd=hello\n')
    expect(readFileSync(join(stage.folder, 'maps/level.txt'), 'utf8')).toBe('level=world\n')
    const [closed] = await eventually(
      () => stage.audit('sftp.session_close'),
      (rows) => rows.length > 0,
    )
    expect(closed).toMatchObject({
      userId: stage.owner.id,
      resourceId: stage.serverId,
      details: {
        method: 'password',
        filesRead: 1,
        filesWritten: 1,
        bytesRead: 11,
        bytesWritten: 12,
        renamed: 1,
        removed: 1,
      },
    })
    expect((await stage.audit('sftp.session_open')).length).toBe(1)
  })

  test('a folder is changed by way of a link as it is listed, and nothing that is kept, or outside', async () => {
    for (const path of ['worlds/main', 'vault']) mkdirSync(join(stage.folder, path), { recursive: true })
    symlinkSync('worlds/main', join(stage.folder, 'world'))
    symlinkSync('vault', join(stage.folder, 'open'))
    symlinkSync('../../..', join(stage.folder, 'worlds', 'out'))
    symlinkSync('loop', join(stage.folder, 'loop'))
    const sent = stage.write('sent3', 'level')
    const ended = await stage.sftp([
      'cd world',
      `put ${sent} one`,
      'mkdir region',
      `put ${sent} two`,
      'rename two region/two',
      'chmod 600 one',
      'ln -s one three',
      `put ${sent} gone`,
      'rm gone',
      'mkdir empty',
      'rmdir empty',
    ])
    expect(ended).toMatchObject({ status: 0, err: '' })
    const main = join(stage.folder, 'worlds', 'main')
    expect(readdirSync(main, { recursive: true }).sort()).toEqual(['one', 'region', 'region/two', 'three'])
    expect(statSync(join(main, 'one')).mode & 0o777).toBe(0o600)
    const refused = [`put ${sent} open/gold`, 'mkdir open/more', 'rename world/one open/one', `put ${sent} loop/x`]
    expect(await stage.failing(refused)).toEqual(refused)
    await stage.failing([`put ${sent} worlds/out/escaped`])
    expect(existsSync(join(stage.folder, '..', '..', 'escaped'))).toBe(false)
    expect(existsSync(join(stage.folder, '..', 'escaped'))).toBe(false)
    expect(readdirSync(join(stage.folder, 'vault'))).toEqual([])
    expect(readdirSync(main)).toContain('one')
    for (const name of readdirSync(stage.folder)) rmSync(join(stage.folder, name), { recursive: true })
  })

  test('the name before the last dot is that of the account, which may be an address, and the server may be named', async () => {
    for (const user of [`${stage.owner.email}.${stage.serverId}`, `${stage.owner.username}.survival`]) {
      expect(await stage.sftp(['pwd'], { user })).toMatchObject({ status: 0 })
    }
    expect(await stage.sftp(['pwd'], { user: `${stage.owner.username}.nothing` })).toMatchObject({ status: 255 })
  })

  test('many who come in at once stay in', async () => {
    const clients = await Promise.all(Array.from({ length: 12 }, () => openClient(stage)))
    for (const client of clients) expect(await client.list('/')).toBeDefined()
    for (const client of clients) client.end()
    await Promise.all(clients.map(({ closed }) => closed))
  })

  test('scp copies there and back', async () => {
    const sent = stage.write('world.dat', Buffer.alloc(300_000, 7))
    const place = (path: string): string => `${stage.user}@127.0.0.1:${path}`
    expect(await stage.run('scp', ['-P', String(stage.port), sent, place('/world.dat')])).toMatchObject({ status: 0 })
    const back = join(stage.local, 'back.dat')
    expect(await stage.run('scp', ['-P', String(stage.port), place('/world.dat'), back])).toMatchObject({ status: 0 })
    expect(readFileSync(back).equals(readFileSync(sent))).toBe(true)
    const old = await stage.run('scp', ['-O', '-P', String(stage.port), sent, place('/world.dat')])
    expect(old.status).not.toBe(0)
    expect(old.err).toContain('Commands are not carried out here')
  })

  test('a key of the profile comes in, and a read-only one changes nothing; deleting it ends its session', async () => {
    const [key, reading, strange] = [stage.key('rsa', '-b', '2048'), stage.key('ecdsa'), stage.key()]
    const { client } = stage.owner
    const { id, name, fingerprint } = await client.call(addSshKey, { body: { publicKey: key.publicKey } })
    expect(name).toBe('test key')
    expect(fingerprint).toMatch(/^SHA256:/)
    await client.call(addSshKey, { body: { publicKey: reading.publicKey, name: 'reader', readOnly: true } })
    await expect(client.call(addSshKey, { body: { publicKey: key.publicKey } })).rejects.toMatchObject({
      code: 'SSH_KEY_EXISTS',
    })
    await expect(client.call(addSshKey, { body: { publicKey: readFileSync(key.file, 'utf8') } })).rejects.toMatchObject(
      {
        code: 'VALIDATION_ERROR',
      },
    )
    const sent = stage.write('by-key', 'x')
    expect(await stage.sftp([`put ${sent} by-key`], { identity: key.file })).toMatchObject({ status: 0 })
    const refused = await stage.sftp(['ls', `put ${sent} by-reader`], { identity: reading.file })
    expect(refused.status).not.toBe(0)
    expect(existsSync(join(stage.folder, 'by-reader'))).toBe(false)
    expect(await stage.sftp(['ls'], { identity: strange.file })).toMatchObject({ status: 255 })
    const open = await openClient(stage, { privateKey: readFileSync(key.file, 'utf8') })
    await open.list('/')
    await client.call(deleteSshKey, { params: { sshKeyId: id } })
    await open.closed
    expect((await client.call(listSshKeys, { query: {} })).map((one) => one.name)).toEqual(['reader'])
  })

  test('a token comes in for its server alone, and its session ends when it is revoked', async () => {
    const { client, id } = stage.owner
    const info = await client.call(sftpInfo, { query: { serverId: stage.serverId, ttl: 60_000 } as never })
    expect(info).toMatchObject({ enabled: true, problem: null, host: '127.0.0.1', port: stage.port, ttlMs: 60_000 })
    const password = info.sftpPassword ?? ''
    expect(password).toMatch(/^sftp_[0-9a-f]{64}$/)
    expect(info.fingerprint).toMatch(/^SHA256:/)
    expect(await stage.sftp(['pwd'], { password })).toMatchObject({ status: 0 })
    const open = await openClient(stage, { password })
    const sessions = await client.call(listSftpSessions, { query: { serverId: stage.serverId } })
    expect(sessions).toMatchObject([{ method: 'token', isSelf: true, ipAddress: '127.0.0.1' }])
    const query = { serverId: stage.serverId }
    const [own] = await client.call(listSftpTokens, { query })
    expect(own).toMatchObject({ token: null, isSelf: true, username: 'anna' })
    await client.call(revokeUserSftpTokens, { params: { tokenUserId: id as never }, query })
    await open.closed
    const { sftpPassword } = await client.call(rotateSftpToken, { body: { serverId: stage.serverId } })
    expect(await stage.sftp(['pwd'], { password })).toMatchObject({ status: 255 })
    const again = await openClient(stage, { password: sftpPassword })
    const [session] = await client.call(listSftpSessions, { query: { serverId: stage.serverId } })
    await client.call(endSftpSession, { params: { sftpSessionId: session?.id as never } })
    await again.closed
  })

  test('an API key that may do less than its user gets no token, and none that outlives it or its deletion', async () => {
    const { panel, serverId } = stage
    const all = ['file.sftp', 'file.read', 'file.write', 'console.read', 'console.write']
    const keyed = async (permissions: string[]) => {
      const body = { name: permissions.join(' '), permissions, expiresIn: 3600 }
      const { id, key, expiresAt } = await panel.client.call(createApiKey, { body } as never)
      return { id, client: panel.as(key), endsMs: Date.parse(expiresAt ?? '') }
    }
    const reader = (await keyed(['file.sftp', 'file.read'])).client
    const missing = ['file.write', 'console.read', 'console.write']
    const denied = { code: 'PERMISSION_DENIED', meta: { missing } }
    await expect(reader.call(sftpInfo, { query: { serverId } })).rejects.toMatchObject(denied)
    await expect(reader.call(rotateSftpToken, { body: { serverId } })).rejects.toMatchObject(denied)
    const info = await reader.call(sftpInfo, { query: { serverId, token: 'false' } as never })
    expect(info).toMatchObject({ sftpPassword: null })
    const { id, client, endsMs } = await keyed(all)
    const made = await client.call(sftpInfo, { query: { serverId, ttl: 30 * 86_400_000 } as never })
    expect(made.expiresAt).toBeLessThanOrEqual(endsMs)
    const rotated = await client.call(rotateSftpToken, { body: { serverId, ttlMs: 30 * 86_400_000 } })
    expect(rotated.expiresAt).toBeLessThanOrEqual(endsMs)
    const tokens = () => panel.client.call(listSftpTokens, { query: { serverId } })
    const before = (await tokens()).length
    await panel.client.call(deleteApiKey, { params: { keyId: id } } as never)
    expect(await tokens()).toHaveLength(before - 1)
  })

  test('a token of an API key may what the key may at each moment, and nothing while it is switched off', async () => {
    const { panel, serverId } = stage
    const rights = ['file.sftp', 'file.read', 'file.write', 'console.read', 'console.write']
    const made = { name: 'deploy', permissions: rights }
    const { id, key } = await panel.client.call(createApiKey, { body: made } as never)
    const info = await panel.as(key).call(sftpInfo, { query: { serverId } } as never)
    const { username: user, sftpPassword } = info
    const password = sftpPassword ?? ''
    const change = (body: object) => panel.client.call(updateApiKey, { params: { keyId: id }, body } as never)
    const write = () => stage.sftp(['mkdir deploys', 'rmdir deploys'], { user, password })
    const list = () => stage.sftp(['ls /'], { user, password })
    expect(await write()).toMatchObject({ status: 0 })
    const open = await openClient(stage, { user, password })
    await change({ permissions: ['file.sftp', 'file.read'] })
    expect(await write()).toMatchObject({ status: 1 })
    expect(await list()).toMatchObject({ status: 0 })
    await change({ enabled: false })
    await open.closed
    expect(await list()).toMatchObject({ status: 255 })
    await change({ enabled: true })
    expect(await list()).toMatchObject({ status: 0 })
  })

  test('whatever takes the right away ends idle sessions, and those with files open, of all connections', async () => {
    const RIGHTS = ['server.read', 'file.read', 'file.write', 'file.sftp']
    const changes: [what: string, change: (guest: SftpPerson) => Promise<unknown>, isNarrowed?: boolean][] = [
      [
        'the grant is taken back',
        ({ id }) =>
          stage.owner.client.call(removeServerAccess, {
            params: { serverId: stage.serverId, targetUserId: id },
          } as never),
      ],
      [
        'the account is banned',
        ({ id }) => stage.panel.client.call(banUser, { params: { userId: id }, body: {} } as never),
      ],
      ['the account is deleted', ({ id }) => stage.panel.client.call(deleteUser, { params: { userId: id } } as never)],
      [
        'the file is no longer among its paths',
        ({ id }) =>
          stage.owner.client.call(setServerAccess, {
            params: { serverId: stage.serverId },
            body: { targetUserId: id, permissions: RIGHTS, filePaths: { allow: ['/elsewhere/'], deny: [] } } as never,
          }),
        true,
      ],
    ]
    for (const [what, change, isNarrowed = false] of changes) {
      const file = join(stage.folder, 'held.txt')
      writeFileSync(file, 'before')
      const guest = await stage.person()
      await stage.owner.client.call(setServerAccess, {
        params: { serverId: stage.serverId },
        body: { targetUserId: guest.id, permissions: RIGHTS } as never,
      })
      const user = `${guest.username}.${stage.serverId}`
      const [idle, reads, writes] = await Promise.all([1, 2, 3].map(() => openClient(stage, { user })))
      const [reading, writing] = [await reads?.open('held.txt', 'r'), await writes?.open('held.txt', 'r+')]
      expect(await reading?.read()).toBe('before')
      await change(guest)
      if (isNarrowed) {
        // The sessions stay: they may do something elsewhere.
        await eventually(
          async () => (await reading?.read().catch(() => 'refused')) ?? '',
          (answer) => answer === 'refused',
        )
        await expect(writing?.write('after')).rejects.toThrow()
        for (const one of [idle, reads, writes]) one?.end()
      }
      await Promise.all([idle?.closed, reads?.closed, writes?.closed])
      expect([what, readFileSync(file, 'utf8')]).toEqual([what, 'before'])
    }
  })

  test('a removed right, a ban and a new password end a session within a second; reading alone does not write', async () => {
    const guest = await stage.person()
    const give = (permissions: string[]) =>
      stage.owner.client.call(setServerAccess, {
        params: { serverId: stage.serverId },
        body: { targetUserId: guest.id, permissions } as never,
      })
    const user = `${guest.username}.${stage.serverId}`
    await give(['server.read', 'file.read', 'file.write'])
    const without = await stage.sftp(['ls'], { user })
    expect(without.status).not.toBe(0)
    expect(without.err).toContain('file.sftp')
    await give(['server.read', 'file.read', 'file.sftp'])
    const sent = stage.write('guest', 'x')
    expect((await stage.sftp(['ls'], { user })).status).toBe(0)
    expect((await stage.sftp([`put ${sent} guest`], { user })).status).toBe(1)
    const open = await openClient(stage, { user, password: PASSWORD })
    await give(['server.read'])
    const sinceMs = performance.now()
    await open.closed
    expect(performance.now() - sinceMs).toBeLessThan(1000)
    await give(['server.read', 'file.read', 'file.sftp'])
    const second = await openClient(stage, { user, password: PASSWORD })
    await guest.client.call(changePassword, {
      body: { currentPassword: PASSWORD, newPassword: 'Another-horse-2', revokeOtherSessions: false },
    })
    await second.closed
  })

  test('what the template keeps from members is neither listed nor reached by any name', async () => {
    mkdirSync(join(stage.folder, 'vault'), { recursive: true })
    writeFileSync(join(stage.folder, 'vault', 'gold'), 'gold')
    writeFileSync(join(stage.folder, 'key.secret'), 'secret')
    const listed = await stage.sftp(['ls -a'])
    expect(listed.out).not.toMatch(/vault|secret/)
    const sent = stage.write('sent2', 'x')
    const kept = [
      `get key.secret ${stage.local}/stolen`,
      `get vault/gold ${stage.local}/stolen`,
      'ls vault',
      'rename key.secret key.txt',
      `put ${sent} other.secret`,
      'rm VAULT/gold',
      'chmod 777 key.secret',
      'rmdir vault',
    ]
    const byLink = `get open ${stage.local}/stolen`
    expect(await stage.failing([...kept, 'ln -s key.secret open', byLink])).toEqual([...kept, byLink])
    expect(existsSync(join(stage.local, 'stolen'))).toBe(false)
    expect(readFileSync(join(stage.folder, 'key.secret'), 'utf8')).toBe('secret')
  })

  test('a member who is held to paths sees, reads and changes these alone, and what they are held to changes at once', async () => {
    const guest = await stage.person()
    for (const path of ['plugins/one/config.yml', 'plugins/one/own.key', 'world/level.dat']) {
      mkdirSync(join(stage.folder, path, '..'), { recursive: true })
      writeFileSync(join(stage.folder, path), path)
    }
    const give = (filePaths: object) =>
      stage.owner.client.call(setServerAccess, {
        params: { serverId: stage.serverId },
        body: { targetUserId: guest.id, permissions: ['file.read', 'file.write', 'file.sftp'], filePaths } as never,
      })
    const user = `${guest.username}.${stage.serverId}`
    await give({ allow: ['plugins/one/'], deny: ['*.key'] })
    const sent = stage.write('held', 'x')
    const allowed = await stage.sftp(
      [
        'ls -a',
        'ls -a plugins/one',
        `get plugins/one/config.yml ${stage.local}/config`,
        `put ${sent} plugins/one/new`,
        'mkdir plugins/one/folder',
      ],
      { user },
    )
    expect(allowed).toMatchObject({ status: 0, err: '' })
    expect(allowed.out).toContain('config.yml')
    expect(allowed.out).not.toMatch(/own\.key|world/)
    expect(existsSync(join(stage.folder, 'plugins/one/new'))).toBe(true)
    await stage.sftp(['ln -s one/config.yml plugins/way', 'ln -s ../../world plugins/one/out'])
    const beyond = [
      'ls world',
      `get world/level.dat ${stage.local}/no`,
      `get plugins/one/own.key ${stage.local}/no`,
      `get plugins/one/OWN.KEY ${stage.local}/no`,
      `get plugins/one/out/level.dat ${stage.local}/no`,
      `put ${sent} world/evil`,
      `put ${sent} plugins/evil`,
      `put ${sent} plugins/one/evil.key`,
      'rm world/level.dat',
      'rm plugins/one/own.key',
      'rename plugins/one world2',
      'rename plugins/one/new world/new',
      'rename world plugins/one/world',
      'rename plugins/one/own.key plugins/one/own',
      'mkdir plugins/two',
      'rmdir world',
      'ln -s config.yml plugins/link',
      'ln -s ../../world plugins/one/mine',
      'chmod 777 world/level.dat',
      'chmod 777 plugins',
    ]
    expect(await stage.failing(beyond, { user })).toEqual(beyond)
    expect(existsSync(join(stage.local, 'no'))).toBe(false)
    const open = await openClient(stage, { user, password: PASSWORD })
    expect(await open.list('/')).toEqual(['plugins'])
    const config = await open.open('/plugins/one/config.yml', 'r+')
    expect(await config.read()).toBe('plugins/one/config.yml')
    await give({ allow: ['/world/'], deny: [] })
    await eventually(
      () => open.list('/'),
      (names) => names.includes('world') && !names.includes('plugins'),
    )
    await expect(config.read()).rejects.toThrow('does not reach')
    await expect(config.write('evil')).rejects.toThrow('does not reach')
    expect(readFileSync(join(stage.folder, 'plugins/one/config.yml'), 'utf8')).toBe('plugins/one/config.yml')
    open.end()
  })

  test('a file that was open before a backup was restored is neither read nor written any more', async () => {
    const serverId = await stage.server(stage.owner.id)
    const params = { serverId }
    const level = join(stage.folderOf(serverId), 'level')
    const { client } = stage.panel
    const succeeded = ({ jobId }: { readonly jobId: string | null }) =>
      eventually(
        () => client.call(getJob, { params: { jobId: jobId as never } }),
        ({ status }) => status === 'succeeded',
      )
    writeFileSync(level, 'backed up')
    const made = await client.call(createBackup, { params, body: {} })
    await succeeded(made)
    writeFileSync(level, 'changed since')
    const open = await openClient(stage, { user: `${stage.owner.username}.${serverId}` })
    const file = await open.open('/level', 'r+')
    expect(await file.read()).toBe('changed since')
    await succeeded(
      await client.call(restoreBackup, { params: { ...params, backupId: made.backupId }, body: {} as never }),
    )
    await expect(file.read()).rejects.toThrow('open it again')
    await expect(file.write('evil')).rejects.toThrow('open it again')
    expect(await (await open.open('/level', 'r')).read()).toBe('backed up')
    open.end()
  })

  test('an account has at most 50 keys, and those that cannot be used are refused with the reason', {
    tags: ['long'],
  }, async () => {
    const { client } = await stage.person()
    const add = (publicKey: string) => client.call(addSshKey, { body: { publicKey } })
    await expect(add('sk-ssh-ed25519@openssh.com AAAA')).rejects.toMatchObject({
      details: [{ message: expect.stringContaining('security key') }],
    })
    await expect(add(`ssh-ed25519 ${'A'.repeat(68)}`)).rejects.toMatchObject({ code: 'VALIDATION_ERROR' })
    await expect(add(stage.key('rsa', '-b', '1024').publicKey)).rejects.toMatchObject({
      details: [{ message: expect.stringContaining('1024 bits') }],
    })
    for (let count = 0; count < 50; count++) await add(publicKeyLine())
    await expect(add(publicKeyLine())).rejects.toMatchObject({ code: 'SSH_KEY_LIMIT_REACHED' })
  })

  test('an account with a second factor comes in by key or token, and not by its password', async () => {
    const person = await stage.person()
    const serverId = await stage.server(person.id)
    const user = `${person.username}.${serverId}`
    const key = stage.key()
    await person.client.call(addSshKey, { body: { publicKey: key.publicKey } })
    expect((await stage.sftp(['pwd'], { user })).status).toBe(0)
    await secondFactor(person)
    const refused = await stage.sftp(['pwd'], { user })
    expect(refused.status).not.toBe(0)
    expect(refused.err).toContain('second factor')
    expect((await stage.sftp(['pwd'], { user, identity: key.file })).status).toBe(0)
    const password = await stage.token(person, serverId)
    expect((await stage.sftp(['pwd'], { user, password })).status).toBe(0)
  })

  test('an account with an identity at a provider comes in by token, and not by its password', async () => {
    const person = await stage.person()
    const serverId = await stage.server(person.id)
    const user = `${person.username}.${serverId}`
    const params = { providerId: ProviderId.parse('corp') }
    await stage.panel.client.call(putProvider, {
      params,
      body: { clientId: 'panel', discoveryUrl: 'http://127.0.0.1:1' },
    })
    // As a sign-in by the provider leaves it.
    await stage.panel.app.core.db.write(async (tx) => {
      const row = { id: 'idn_test', userId: person.id, ...params, issuer: 'http://127.0.0.1:1', subject: 'person' }
      const times = { createdAt: tx.now, updatedAt: tx.now, lastUsedAt: null }
      await tx.q
        .insertInto('identity')
        .values({ ...row, email: null, scopes: '[]', ...times })
        .execute()
    })
    const refused = await stage.sftp(['pwd'], { user })
    expect(refused.status).not.toBe(0)
    expect(refused.err).toContain('identity provider')
    expect((await stage.sftp(['pwd'], { user, password: await stage.token(person, serverId) })).status).toBe(0)
  })

  test('a suspended server says so, and its sessions end', async () => {
    const person = await stage.person()
    const serverId = await stage.server(person.id)
    const user = `${person.username}.${serverId}`
    const open = await openClient(stage, { user, password: PASSWORD })
    await stage.panel.client.call(suspendServer, { params: { serverId }, body: { reason: 'bill' } as never })
    await open.closed
    const refused = await stage.sftp(['ls'], { user })
    expect(refused).toMatchObject({ status: 255 })
    expect(refused.err).toContain('suspended')
  })

  test('the console shows what there was, takes commands, and Ctrl-C leaves', async () => {
    const params = { serverId: stage.serverId }
    const early = await (await openClient(stage, { password: PASSWORD })).shell()
    early.type('say too early\r')
    // Why the panel refuses it, in its words.
    await early.until('is stopped')
    early.type('\u0003')
    expect(await early.ended).toBe(0)
    await stage.owner.client.call(startServer, { params })
    await eventually(
      () => stage.owner.client.call(getServer, { params }),
      ({ status }) => status === 'running',
    )
    const shell = await (await openClient(stage, { password: PASSWORD })).shell()
    await shell.until('ready')
    shell.type('say hel\u007fl\u0008llo\r')
    await shell.until('got say hello')
    shell.type('\u0003')
    expect(await shell.ended).toBe(0)
    const piped = await stage.run('ssh', ['-p', String(stage.port), `${stage.user}@127.0.0.1`], {
      input: 'say piped\n',
    })
    expect(piped.status).toBe(0)
    expect((await stage.audit('server.console_command')).map(({ details }) => details['command'])).toContain(
      'say piped',
    )
    const exec = await stage.run('ssh', ['-p', String(stage.port), `${stage.user}@127.0.0.1`, 'id'])
    expect(exec).toMatchObject({ status: 1, out: '' })
  })

  test('wrong passwords lock the account for the address, at the panel too; the right one is refused meanwhile', async () => {
    const person = await stage.person()
    const serverId = await stage.server(person.id)
    const user = `${person.username}.${serverId}`
    for (let i = 0; i < 5; i++) expect((await stage.sftp(['ls'], { user, password: 'wrong' })).status).toBe(255)
    expect((await stage.sftp(['ls'], { user })).status).toBe(255)
    const rows = await stage.audit('auth_lockout.create')
    expect(rows[0]?.details).toMatchObject({ email: person.email, ipAddress: '127.0.0.1' })
    const login = await fetch(`${stage.panel.url}/api/auth/login`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ email: person.email, password: PASSWORD }),
    })
    expect(login.status).toBe(429)
  })
})

async function secondFactor(person: Pick<SftpPerson, 'client'>): Promise<void> {
  const { totpURI } = await person.client.call(enableTwoFactor, { body: { password: PASSWORD } })
  await person.client.call(verifyTotp, { body: { code: URI.parse(totpURI).generate() } })
}
