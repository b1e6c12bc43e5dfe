import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createServer, getServer } from '../../../src/shared/api/servers.ts'
import { sftpInfo } from '../../../src/shared/api/sftp.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import type { ServerId } from '../../../src/shared/kernel/ids.ts'
import { startPanel, type TestPanel } from '../../panel.ts'
import { quietPort } from '../../ports.ts'
import { skippedUnless } from '../../skips.ts'
import { eventually } from '../gateway-stage.ts'
import { has, run, SftpStage } from './sftp-stage.ts'

const RUNS = has('sftp', 'ssh', 'ssh-keygen', 'ssh-keyscan', 'sshpass')
/** Behind the magic, the cipher, the public half: the first of what would be encrypted. */
const CHECK_AT = 98
const WHY_NOT = skippedUnless(RUNS, 'openssh-client and sshpass')

describe.skipIf(!RUNS)(`the host key of a node${WHY_NOT}`, () => {
  let home: string
  let serverId: ServerId
  let file: string

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'panel-host-key-'))
    file = join(home, 'data', 'agent', 'sftp', 'host_key')
    serverId = await withPanel(addServer)
  })
  afterAll(() => rmSync(home, { recursive: true, force: true }))

  /** A panel with its agent over the same folder each time. */
  async function withPanel<T>(work: (panel: TestPanel) => Promise<T>): Promise<T> {
    const panel = await startPanel({ agent: true, sftp: true, dataDir: home })
    try {
      return await work(panel)
    } finally {
      await panel.close()
    }
  }

  /** What the panel shows of the node's SSH server with this text as its key, and that its agent works all the same. */
  const shownWith = (text: string) => {
    writeFileSync(file, text, { mode: 0o600 })
    return withPanel(async (panel) => {
      const shown = await panel.client.call(getServer, { params: { serverId } })
      expect(shown.status).toBe('stopped')
      return await infoOf(panel)
    })
  }
  const infoOf = (panel: TestPanel) => panel.client.call(sftpInfo, { query: { serverId, token: 'false' } })

  /** A pair of OpenSSH's own program. */
  async function made(...options: readonly string[]): Promise<{ readonly text: string; readonly fingerprint: string }> {
    const path = join(home, `made-${options.join('').replaceAll(/\W/g, '')}${Math.random()}`)
    expect(await run('ssh-keygen', ['-q', '-C', 'by hand', '-f', path, ...options])).toMatchObject({ status: 0 })
    return { text: readFileSync(path, 'utf8'), fingerprint: await fingerprintOf(path) }
  }

  test('is read by OpenSSH, and has the fingerprint that the panel shows and clients see', async () => {
    rmSync(file)
    await withPanel(async (panel) => {
      const { enabled, problem, fingerprint, port } = await infoOf(panel)
      expect([enabled, problem]).toEqual([true, null])
      expect(statSync(file).mode & 0o777).toBe(0o600)
      expect(await fingerprintOf(file)).toBe(fingerprint)
      const publicHalf = await run('ssh-keygen', ['-y', '-f', file])
      expect(publicHalf).toMatchObject({ status: 0, err: '' })
      expect(publicHalf.out).toMatch(/^ssh-ed25519 \S+ panel\n$/)
      const scanned = await run('ssh-keyscan', ['-p', String(port), '127.0.0.1'])
      expect(scanned.out).toContain(publicHalf.out.split(' ')[1])
    })
  })

  test('may be one that ssh-keygen has made, with any comment, and with what editors do to lines', async () => {
    const own = await made('-t', 'ed25519', '-N', '')
    for (const text of [own.text, `\n${own.text.replaceAll('\n', '\r\n')}\r\n\n`]) {
      writeFileSync(file, text)
      await withPanel(async (panel) => {
        const { enabled, problem, fingerprint, port } = await infoOf(panel)
        expect({ enabled, problem, fingerprint }).toEqual({
          enabled: true,
          problem: null,
          fingerprint: own.fingerprint,
        })
        expect((await run('ssh-keyscan', ['-p', String(port), '127.0.0.1'])).out).toContain('ssh-ed25519 ')
      })
    }
  })

  /** One case: what is wrong, the text of the key, and what the panel says of it. */
  type Case = readonly [what: string, text: string, problem: string]

  async function expectProblems(cases: readonly Case[]): Promise<void> {
    const found: unknown[] = []
    for (const [what, text] of cases) {
      const { enabled, problem, fingerprint } = await shownWith(text)
      found.push([what, enabled, /\((.*)\)/.exec(problem ?? '')?.[1], fingerprint])
      expect(problem).toMatch(/^SFTP cannot be offered: The host key \S+ cannot be read .* move it away and a new one/)
      expect(readFileSync(file, 'utf8')).toBe(text)
    }
    expect(found).toEqual(cases.map(([what, , problem]) => [what, false, problem, null]))
  }

  test('that cannot be used is a problem which the panel shows, and the agent works on', async () => {
    const own = await made('-t', 'ed25519', '-N', '')
    const bytes = bytesOf(own.text)
    await expectProblems([
      ['cut off as a text', own.text.slice(0, 200), 'it is no private key of OpenSSH'],
      ['of halves of two keys', await mixed(), 'its halves do not belong together'],
      ['with a wrong filling', textOf(changed(bytes, bytes.length - 1)), 'it is damaged'],
    ])
  })

  test('that is of another kind, or damaged anywhere, is the same', { tags: ['long'], timeout: 60_000 }, async () => {
    const own = await made('-t', 'ed25519', '-N', '')
    const bytes = bytesOf(own.text)
    const pairAt = pairOf(bytes)
    await expectProblems([
      ['empty', '', 'it is no private key of OpenSSH'],
      ['something else', 'hello\n', 'it is no private key of OpenSSH'],
      ['cut off inside', textOf(bytes.subarray(0, -40)), 'the key is shorter than it says'],
      ['encrypted', (await made('-t', 'ed25519', '-N', 'password')).text, 'it is encrypted'],
      ['RSA', (await made('-t', 'rsa', '-b', '2048', '-N', '')).text, 'it is not of the type ssh-ed25519'],
      ['with one bit of the seed changed', textOf(changed(bytes, pairAt)), 'its halves do not belong together'],
      ['with one bit of the rest changed', textOf(changed(bytes, pairAt + 40)), 'its halves do not belong together'],
      ['with other check numbers', textOf(changed(bytes, CHECK_AT)), 'it is damaged'],
      ['with more behind it', textOf(Buffer.concat([bytes, Buffer.from('more')])), 'it is damaged'],
    ])
  })

  /** A key with the seed of another one. */
  async function mixed(): Promise<string> {
    const [one, other] = [await made('-t', 'ed25519', '-N', ''), await made('-t', 'ed25519', '-N', '')]
    const bytes = bytesOf(one.text)
    const at = pairOf(bytes)
    bytesOf(other.text).copy(bytes, at, at, at + 32)
    return textOf(bytes)
  }
})

describe.skipIf(!RUNS)(`the first who come to a node${WHY_NOT}`, () => {
  let stage: SftpStage

  beforeAll(async () => {
    stage = await SftpStage.enter()
  })
  afterAll(() => stage?.close())

  test('all come in, beside connections that say nothing, go at once, or send something else', async () => {
    const open = (text: string, ending: 'stays' | 'ends' | 'breaks off') => {
      const socket = createConnection(stage.port, '127.0.0.1', () => {
        if (text !== '') socket.write(text)
        if (ending === 'ends') socket.end()
        if (ending === 'breaks off') socket.resetAndDestroy()
      })
      socket.on('error', () => {}) // the other side may break it off too
      return socket
    }
    const strangers = [
      ...[open('', 'ends'), open('', 'breaks off'), open('GET / HTTP/1.1\r\n\r\n', 'stays')],
      ...[open('SSH-2.0-x\r\n', 'breaks off'), open('SSH-2.0-x\r\n', 'ends'), open('', 'stays')],
    ]
    const ended = await Promise.all(Array.from({ length: 6 }, () => stage.sftp(['pwd'])))
    for (const one of ended) expect(one).toMatchObject({ status: 0, err: '' })
    for (const socket of strangers) socket.destroy()
    expect(await stage.sftp(['ls /'])).toMatchObject({ status: 0, err: '' })
    expect(stage.panel.log()).not.toContain('what speaks SSH cannot be loaded')
  })
})

async function fingerprintOf(path: string): Promise<string> {
  const { status, out } = await run('ssh-keygen', ['-l', '-f', path])
  expect(status).toBe(0)
  return out.split(' ')[1] ?? ''
}

function bytesOf(text: string): Buffer {
  return Buffer.from(text.replaceAll(/-----.*-----/g, ''), 'base64')
}

function textOf(bytes: Buffer): string {
  const lines = bytes.toString('base64').replace(/.{1,70}/g, '$&\n')
  return `-----BEGIN OPENSSH PRIVATE KEY-----\n${lines}-----END OPENSSH PRIVATE KEY-----\n`
}

/** Where the seed stands, with the public half behind it. */
function pairOf(bytes: Buffer): number {
  return bytes.lastIndexOf(Buffer.from([0, 0, 0, 64])) + 4
}

/** With one bit changed. */
function changed(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy.writeUInt8(copy.readUInt8(at) ^ 1, at)
  return copy
}

async function addServer({ client, nodeId, locationId }: TestPanel): Promise<ServerId> {
  const template = await client.call(createTemplate, { body: { name: 'Files', startup: 'sleep 1000' } })
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: 64 }
  const place = { nodeId, locationId, templateId: template.id, primaryPort: await quietPort() }
  const { id } = await client.call(createServer, { body: { name: 'Files', ...sizes, ...place } as never })
  await eventually(
    () => client.call(getServer, { params: { serverId: id } }),
    ({ status, installed }) => installed && status === 'stopped',
  )
  return id
}
