// @module-tag long
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { listSftpSessions, sftpInfo } from '../../src/shared/api/sftp.ts'
import { connect } from '../daemon/servers/sftp-client.ts'
import { has, run } from '../daemon/servers/sftp-stage.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { until } from '../e2e/wait.ts'
import { skippedUnless } from '../skips.ts'

const MIB = 1024 * 1024
const SIZE = 512 * MIB
const GROWTH_MIB = 32
const RUNS = has('sftp', 'sshpass')

describe.skipIf(!RUNS)(`half a gigabyte over SFTP${skippedUnless(RUNS, 'openssh-client and sshpass')}`, () => {
  let panel: SplitPanel
  let serverId: string
  let at: { port: number; user: string; password: string }

  beforeAll(async () => {
    panel = await SplitPanel.enter()
    const templateId = await panel.makeTemplate('big', 'echo ready; sleep 1000')
    serverId = (await panel.makeServer('big', templateId, { diskMb: 4096 })).id
    const query = { serverId: serverId as never, ttl: 3_600_000 as never }
    const { port, username: user, sftpPassword: password } = await panel.client.call(sftpInfo, { query })
    at = { port, user, password: password ?? '' }
  }, 120_000)
  afterAll(() => panel?.leave(), 60_000)

  const sftp = (commands: readonly string[]) => {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'BatchMode=no']
    const how = ['-F', '/dev/null', ...options.flatMap((option) => ['-o', option]), '-o', 'PubkeyAuthentication=no']
    const args = ['-e', 'sftp', ...how, '-q', '-b', '-', '-P', String(at.port), `${at.user}@127.0.0.1`]
    return run('sshpass', args, {
      input: `${commands.join('\n')}\n`,
      env: { SSHPASS: at.password },
      timeoutMs: 300_000,
    })
  }

  test('goes there and back whole, and the agent grows by less than 32 MiB', async () => {
    const [local, back] = [join(panel.home, 'local.bin'), join(panel.home, 'back.bin')]
    const sha256 = await fill(local)
    const small = join(panel.home, 'small')
    await fill(small, 64 * MIB)
    // What is loaded, and what is kept for buffers, once is no growth.
    expect(await sftp([`put ${small} small`, `get small ${small}.back`])).toMatchObject({ status: 0 })
    const [, agent = 0] = panel.pids()
    const before = rssMib(agent)
    let most = before
    const watch = setInterval(() => {
      most = Math.max(most, rssMib(agent))
    }, 100)
    const startedMs = performance.now()
    expect(await sftp([`put ${local} big.bin`])).toMatchObject({ status: 0 })
    const putMs = performance.now() - startedMs
    expect(await sftp([`get big.bin ${back}`])).toMatchObject({ status: 0 })
    const getMs = performance.now() - startedMs - putMs
    clearInterval(watch)
    expect(await hashOf(back)).toBe(sha256)
    const speed = (ms: number) => Math.round(SIZE / MIB / (ms / 1000))
    process.stdout.write(
      `put ${speed(putMs)} MiB/s, get ${speed(getMs)} MiB/s, agent +${Math.round(most - before)} MiB\n`,
    )
    expect(most - before).toBeLessThan(GROWTH_MIB)
  }, 400_000)

  test('goes on after its connection was cut', async () => {
    const [local, part] = [join(panel.home, 'local.bin'), join(panel.filesOf(serverId), 'cut.bin')]
    await run('truncate', ['-s', '0', part])
    await run('sh', ['-c', `head -c ${100 * MIB} '${local}' > '${part}'`])
    expect(await sftp([`reput ${local} cut.bin`])).toMatchObject({ status: 0 })
    expect(await hashOf(part)).toBe(await hashOf(local))
  }, 400_000)

  test('a session outlives a restart of the daemon, and ends with that of the agent', async () => {
    const client = await connect({ port: at.port, user: at.user }, { password: at.password })
    const sessions = async () => await panel.client.call(listSftpSessions, { query: { serverId: serverId as never } })
    const [session] = await sessions()
    await panel.killDaemon()
    await panel.startDaemon()
    await panel.online()
    expect((await sessions()).map(({ id }) => id)).toEqual([session?.id])
    const names = await new Promise<number>((resolve, reject) =>
      client.sftp((error, made) =>
        error === undefined ? made.readdir('/', (_, list) => resolve(list.length)) : reject(error),
      ),
    )
    expect(names).toBeGreaterThan(0)
    client.on('error', () => {}) // it is cut off
    await panel.killAgent()
    await panel.startAgent()
    await panel.online()
    // The agent says at its first question that it has none; rows of the last minute may be of a session on its way.
    await until('the lost session to be closed', async () => (await sessions()).length === 0, 90_000)
  }, 180_000)
})

function rssMib(pid: number): number {
  const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Number(kib) / 1024
}

/** Writes a file that compresses badly and repeats nothing; its SHA-256. */
async function fill(path: string, size = SIZE): Promise<string> {
  const hash = createHash('sha256')
  const file = createWriteStream(path)
  const block = randomBytes(MIB)
  for (let at = 0; at < size; at += MIB) {
    block.writeUInt32BE(at / MIB)
    hash.update(block)
    if (!file.write(Buffer.from(block))) await new Promise<void>((resolve) => file.once('drain', () => resolve()))
  }
  await new Promise<void>((resolve) => file.end(() => resolve()))
  return hash.digest('hex')
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const piece of createReadStream(path)) hash.update(piece)
  return hash.digest('hex')
}
