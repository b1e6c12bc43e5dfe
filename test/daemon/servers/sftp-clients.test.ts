import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { sftpInfo } from '../../../src/shared/api/sftp.ts'
import { addSshKey } from '../../../src/shared/api/ssh-keys.ts'
import { startPanel } from '../../panel.ts'
import { skippedUnless } from '../../skips.ts'
import { eventually } from '../gateway-stage.ts'
import { has, run, SftpStage } from './sftp-stage.ts'

const RCLONE = has('rclone', 'ssh-keygen')
const SSHFS = has('sshfs', 'fusermount', 'ssh-keygen') && existsSync('/dev/fuse') && process.getuid?.() === 0

let stage: SftpStage
let key: string

beforeAll(async () => {
  stage = await SftpStage.enter()
  const made = stage.key()
  await stage.owner.client.call(addSshKey, { body: { publicKey: made.publicKey } })
  key = made.file
})
afterAll(() => stage?.close())

/** A tree with what trees of games have: empty files, spaces, other scripts, a larger one. */
function makeTree(folder: string): void {
  for (let index = 0; index < 10; index++) {
    mkdirSync(join(folder, `region ${index}`, 'deep'), { recursive: true })
    writeFileSync(join(folder, `region ${index}`, 'deep', `r.${index}.mca`), Buffer.alloc(index * 777, index))
  }
  writeFileSync(join(folder, 'größe.txt'), 'x')
  writeFileSync(join(folder, 'empty'), '')
  writeFileSync(join(folder, 'large.bin'), Buffer.alloc(3_000_000, 9))
}

describe.skipIf(!RCLONE)(`rclone${skippedUnless(RCLONE, 'rclone and openssh-client')}`, () => {
  test('copies, syncs and checks, and ends by itself with 0', async () => {
    const remote = [
      ...['--sftp-host', '127.0.0.1', '--sftp-port', String(stage.port), '--sftp-user', stage.user],
      ...['--sftp-key-file', key, '--sftp-shell-type', 'none', '--config', '/dev/null', '--retries', '1'],
    ]
    const tree = join(stage.local, 'tree')
    makeTree(tree)
    const rclone = async (...args: string[]) => {
      const { status, err } = await run('rclone', [...args, ...remote])
      // What went wrong is shown with it.
      return { status, problems: status === 0 ? '' : err }
    }
    expect(await rclone('copy', tree, ':sftp:/copied')).toEqual({ status: 0, problems: '' })
    writeFileSync(join(tree, 'empty'), 'not empty any more')
    writeFileSync(join(stage.folder, 'copied', 'extra'), 'goes')
    expect(await rclone('sync', tree, ':sftp:/copied')).toEqual({ status: 0, problems: '' })
    expect(existsSync(join(stage.folder, 'copied', 'extra'))).toBe(false)
    expect(await rclone('check', tree, ':sftp:/copied', '--download')).toEqual({ status: 0, problems: '' })
    const back = join(stage.local, 'back')
    expect(await rclone('copy', ':sftp:/copied', back)).toEqual({ status: 0, problems: '' })
    expect(readFileSync(join(back, 'größe.txt'), 'utf8')).toBe('x')
    expect(readFileSync(join(back, 'large.bin')).equals(readFileSync(join(tree, 'large.bin')))).toBe(true)
  })
})

describe.skipIf(!SSHFS)(`sshfs${skippedUnless(SSHFS, 'sshfs, root and /dev/fuse')}`, () => {
  test('mounts the folder of the server, where programs work as on any other', async () => {
    const mount = join(stage.local, 'mount')
    mkdirSync(mount)
    const options = [
      ...['-o', `StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR,IdentityFile=${key}`],
      ...['-o', 'IdentitiesOnly=yes,PasswordAuthentication=no,idmap=user', '-F', '/dev/null', '-f'],
    ]
    const child = spawn('sshfs', [`${stage.user}@127.0.0.1:/`, mount, '-p', String(stage.port), ...options])
    const ended = once(child, 'close')
    let said = ''
    child.stderr.on('data', (piece) => (said += String(piece)))
    try {
      // Only programs of their own look at what is mounted: this process is the server, and would wait for itself.
      await eventually(
        async () => `${said}${readFileSync('/proc/self/mounts', 'utf8')}`,
        (mounts) => mounts.includes(` ${mount} fuse.sshfs `) || child.exitCode !== null,
      )
      expect([said, child.exitCode]).toEqual(['', null])
      const script = `set -e; cd '${mount}'; mkdir -p a/b; echo hello > a/b/file; cp a/b/file a/copy; mv a/copy a/moved
        echo more >> a/moved; ln -s moved a/link; cat a/link; chmod 600 a/moved; touch -d 2020-01-02 a/moved; rm a/b/file; rmdir a/b
        dd if=/dev/zero of=zeros bs=64k count=16 2>/dev/null; truncate -s 100 zeros; ls a; df . > /dev/null`
      expect(await run('sh', ['-c', script])).toEqual({ status: 0, out: 'hello\nmore\nlink\nmoved\n', err: '' })
    } finally {
      expect((await run('fusermount', ['-u', mount])).status).toBe(0)
    }
    expect(await ended).toEqual([0, null])
    expect(readFileSync(join(stage.folder, 'a/moved'), 'utf8')).toBe('hello\nmore\n')
    expect(statSync(join(stage.folder, 'a/moved')).mtime.getFullYear()).toBe(2020)
    expect(statSync(join(stage.folder, 'zeros')).size).toBe(100)
  })
})

test('the host key stays over a restart, for the agent alone to read', { tags: ['long'] }, async () => {
  const dataDir = join(stage.local, 'restarted')
  const keys: string[] = []
  mkdirSync(dataDir, { mode: 0o700 })
  for (let time = 0; time < 2; time++) {
    const panel = await startPanel({ agent: true, sftp: true, dataDir })
    const file = join(panel.dataDir, 'agent', 'sftp', 'host_key')
    keys.push(readFileSync(file, 'utf8'))
    expect(statSync(file).mode & 0o777).toBe(0o600)
    await panel.close()
  }
  expect(keys[0]).toContain('OPENSSH PRIVATE KEY')
  expect(keys[0]).toBe(keys[1])
})

test('a port that is taken stands in the log and in the answer, and the agent works without', {
  tags: ['long'],
}, async () => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  const { port } = other.address() as { port: number }
  const without = await SftpStage.enter({ sftp: port })
  try {
    const info = await without.owner.client.call(sftpInfo, { query: { serverId: without.serverId } })
    expect(info).toMatchObject({ enabled: false, problem: expect.stringContaining(`Port ${port} is taken`), port })
    expect(without.panel.log()).toContain('taken by another program')
  } finally {
    await without.close()
    other.close()
  }
})
