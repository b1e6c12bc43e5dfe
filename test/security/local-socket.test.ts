import { chmod, chown, lstat, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openDb } from '../../src/daemon/db/db.ts'
import { getMe } from '../../src/shared/api/auth.ts'
import { createClient } from '../../src/shared/client.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import { runHere } from '../cli/run-here.ts'
import { startPanel, type TestPanel } from '../panel.ts'
import { STRANGER } from './squatter.ts'

const isRoot = process.getuid?.() === 0

let panel: TestPanel
let home: string
/** A program at a socket of its own, and what it was asked. */
let impostor: { readonly path: string; readonly asked: string[]; close(): Promise<void> }

beforeAll(async () => {
  // Longer than a socket's path may be.
  const parent = await mkdtemp(join(tmpdir(), 'panel-socket-'))
  home = join(parent, 'a-data-folder-with-a-long-name'.repeat(4))
  await mkdir(home)
  panel = await startPanel({ localSocket: true, dataDir: home })
  const asked: string[] = []
  const server = createServer((call, response) => {
    asked.push(`${call.url} ${call.headers.authorization}`)
    response.end('{}')
  })
  const path = join(parent, 'impostor.sock')
  await new Promise<void>((resolve) => server.listen(path, resolve))
  await chmod(path, 0o600)
  impostor = { path, asked, close: () => new Promise((resolve) => server.close(() => resolve())) }
})
afterAll(async () => {
  await panel.close()
  await impostor.close()
  await rm(dirname(home), { recursive: true, force: true })
})

/** A command in a context that goes by this socket and whose URL nothing listens at. */
async function run(socket: string, ...args: string[]) {
  const folder = join(home, '.config/panel')
  await mkdir(folder, { recursive: true })
  const context = { url: 'https://127.0.0.1:65000', socket }
  await writeFile(join(folder, 'cli.yaml'), JSON.stringify({ current: 'local', contexts: { local: context } }))
  const kept = JSON.stringify({ local: { token: panel.adminToken, madeBy: 'up' } })
  await writeFile(join(folder, 'credentials.yaml'), kept, { mode: 0o600 })
  return runHere(args, { env: { HOME: home } })
}

describe('the socket of the data folder', () => {
  it('serves everything, whatever the URL says and however long its path is', async () => {
    expect(Buffer.byteLength(panel.socket)).toBeGreaterThan(107)
    const listed = await run(panel.socket, 'nodes', 'list', '-o', 'json')
    expect(listed, listed.stderr).toMatchObject({ code: 0 })
    expect(JSON.parse(listed.stdout)).toHaveLength(1)
    // Files and streams go another way than short requests.
    const exported = await run(panel.socket, 'audit', 'export', '--out', join(home, 'audit.csv'))
    expect(exported, exported.stderr).toMatchObject({ code: 0 })
    expect(await readFile(join(home, 'audit.csv'), 'utf8')).toContain('node.create')
  })

  it('is closed to others, as its folder is', async () => {
    const [folder, socket] = [await lstat(dirname(panel.socket)), await lstat(panel.socket)]
    expect([folder.mode & 0o777, socket.mode & 0o777]).toEqual([0o700, 0o600])
  })

  it('refuses who has no key, and TCP takes the key still', async () => {
    const socketPath = join('/proc/self/cwd', 'panel.sock')
    const before = process.cwd()
    process.chdir(dirname(panel.socket))
    try {
      const status = await new Promise<number | undefined>((resolve, reject) => {
        const call = request({ socketPath, path: '/api/auth/me' }, (answer) => {
          void text(answer).then(() => resolve(answer.statusCode))
        })
        call.on('error', reject).end()
      })
      expect(status).toBe(401)
    } finally {
      process.chdir(before)
    }
    const answer = await fetch(`${panel.url}/api/auth/me`, { headers: { authorization: `Bearer ${panel.adminToken}` } })
    expect(answer.status).toBe(200)
  })
})

describe('a socket that somebody may have put there', () => {
  const folder = () => dirname(panel.socket)
  const refused = (reason: RegExp) => ({ code: 13, stdout: '', stderr: expect.stringMatching(reason) })

  afterEach(async () => {
    await chown(folder(), process.getuid?.() ?? 0, process.getgid?.() ?? 0)
    await chmod(folder(), 0o700)
    await chmod(panel.socket, 0o600)
    expect(impostor.asked).toEqual([])
    expect(await run(panel.socket, 'whoami')).toMatchObject({ code: 0 })
  })

  it.each([0o711, 0o750, 0o777])('is not used in a folder of mode %o', async (mode) => {
    await chmod(folder(), mode)
    expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/open to other users .*chmod go=.*UNTRUSTED/))
  })

  it('is not used when others may write to it', async () => {
    await chmod(panel.socket, 0o666)
    expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/panel\.sock is open to other users/))
  })

  it.skipIf(!isRoot)(
    'is not used in a folder of another user, nor is a socket of another user (skipped unless root)',
    async () => {
      await chown(folder(), STRANGER, STRANGER)
      expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/belongs to another user \(uid 65534\)/))
      await chown(folder(), 0, 0)
      await chown(panel.socket, STRANGER, STRANGER)
      expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/panel\.sock belongs to another user/))
      await chown(panel.socket, 0, 0)
    },
  )

  it('is not used through a link, nor when it is no socket', async () => {
    const [elsewhere, aside] = [`${folder()}-link`, `${panel.socket}-aside`]
    await symlink(folder(), elsewhere)
    expect(await run(join(elsewhere, 'panel.sock'), 'whoami')).toMatchObject(refused(/is no folder, or a link/))
    await rm(elsewhere)
    await rename(panel.socket, aside)
    await symlink(impostor.path, panel.socket)
    expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/is no socket/))
    await rm(panel.socket)
    await writeFile(panel.socket, '', { mode: 0o600 })
    expect(await run(panel.socket, 'whoami')).toMatchObject(refused(/is no socket/))
    await rename(aside, panel.socket)
  })

  it('is missed like a panel that does not run', async () => {
    const gone = { code: 13, stdout: '', stderr: expect.stringContaining('nothing listens there') }
    expect(await run(join(folder(), 'other.sock'), 'whoami')).toMatchObject(gone)
    expect(await run(join(home, 'nowhere', 'panel.sock'), 'whoami')).toMatchObject(gone)
  })
})

describe('the key of the local context', () => {
  it('is made anew when an earlier version has sent it over a port, and the old one is dead', async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'panel-rotated-'))
    try {
      const before = await startPanel({ dataDir })
      await before.close()
      // The row as earlier versions have made it.
      const db = await openDb(join(before.dataDir, 'db/panel.db'), systemClock)
      await db.write(async (tx) => void (await tx.q.updateTable('apiKey').set({ metadata: null }).execute()))
      await db.close()
      const now = await startPanel({ dataDir })
      expect(now.adminToken).not.toBe(before.adminToken)
      expect((await readFile(join(now.dataDir, 'local.key'), 'utf8')).trim()).toBe(now.adminToken)
      const old = createClient({ baseUrl: now.url, token: before.adminToken, fetch })
      await expect(old.call(getMe)).rejects.toMatchObject({ code: 'UNAUTHENTICATED' })
      await now.close()
      const again = await startPanel({ dataDir })
      expect(again.adminToken).toBe(now.adminToken)
      await again.close()
    } finally {
      await rm(dataDir, { recursive: true, force: true })
    }
  })
})
