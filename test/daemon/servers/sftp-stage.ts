import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { listAuditLogs } from '../../../src/shared/api/admin.ts'
import { login } from '../../../src/shared/api/auth.ts'
import { createServer, getServer } from '../../../src/shared/api/servers.ts'
import { sftpInfo } from '../../../src/shared/api/sftp.ts'
import { createTemplate } from '../../../src/shared/api/templates.ts'
import { createUser } from '../../../src/shared/api/users.ts'
import type { Client } from '../../../src/shared/client.ts'
import type { ServerId } from '../../../src/shared/kernel/ids.ts'
import { type PanelOptions, startPanel, type TestPanel } from '../../panel.ts'
import { quietPort } from '../../ports.ts'
import { eventually } from '../gateway-stage.ts'

export const PASSWORD = 'Correct-horse-1'

/** Programs that may not be installed. */
export function has(...programs: readonly string[]): boolean {
  return programs.every((program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0)
}

/** How a program ended by itself; `status` null: it did not within its time. */
export interface Ended {
  readonly status: number | null
  readonly out: string
  readonly err: string
}

/** An account with its client and how it is named to a server. */
export interface SftpPerson {
  readonly id: string
  readonly username: string
  readonly email: string
  readonly client: Client
  readonly token: string
}

/** A panel with its agent that takes SSH connections, one server, and programs that connect to it. */
export class SftpStage {
  readonly panel: TestPanel
  readonly port: number
  readonly serverId: ServerId
  readonly folder: string
  readonly owner: SftpPerson
  /** For keys and files of clients. */
  readonly local: string
  #templateId = ''
  #count = 0

  private constructor(
    panel: TestPanel,
    made: Pick<SftpStage, 'port' | 'serverId' | 'owner' | 'local'>,
    templateId: string,
  ) {
    this.panel = panel
    this.port = made.port
    this.serverId = made.serverId
    this.owner = made.owner
    this.local = made.local
    this.folder = folderOf(panel, made.serverId)
    this.#templateId = templateId
  }

  static async enter({
    startup = 'sleep 1000',
    diskMb = 512,
    ...options
  }: PanelOptions & { readonly startup?: string; readonly diskMb?: number } = {}): Promise<SftpStage> {
    const panel = await startPanel({ agent: true, sftp: true, ...options })
    await panel.configure('limits.fileRequestsPerMinute', 1_000_000)
    const local = mkdtempSync(join(tmpdir(), 'panel-sftp-'))
    const startupDetection = { done: [{ kind: 'contains' as const, value: 'ready' }] }
    const body = { name: 'Files', startup, startupDetection, installScript: 'echo installed', installEntrypoint: 'sh' }
    const template = await panel.client.call(createTemplate, {
      body: { ...body, fileDenylist: ['*.secret', '/vault/'] },
    })
    const owner = await makePerson(panel, 'anna')
    const serverId = await makeServer(panel, { ownerId: owner.id, templateId: template.id, diskMb, name: 'survival' })
    const { port } = await panel.client.call(sftpInfo, { query: { serverId } })
    return new SftpStage(panel, { port, serverId, owner, local }, template.id)
  }

  get user(): string {
    return `${this.owner.username}.${this.serverId}`
  }

  person(username = `person${++this.#count}`): Promise<SftpPerson> {
    return makePerson(this.panel, username)
  }

  server(ownerId: string, name = `server${++this.#count}`, diskMb = 512): Promise<ServerId> {
    return makeServer(this.panel, { ownerId, templateId: this.#templateId, diskMb, name })
  }

  /** A fresh token of somebody for a server. */
  async token({ client }: SftpPerson, serverId: ServerId = this.serverId): Promise<string> {
    const { sftpPassword } = await client.call(sftpInfo, { query: { serverId } })
    if (sftpPassword === null) throw new Error('no token was made')
    return sftpPassword
  }

  folderOf(serverId: string): string {
    return folderOf(this.panel, serverId)
  }

  /** A fresh key pair; the path of the private one. */
  key(type = 'ed25519', ...more: readonly string[]): { readonly file: string; readonly publicKey: string } {
    const file = join(this.local, `key${++this.#count}`)
    const made = spawnSync('ssh-keygen', ['-q', '-t', type, ...more, '-N', '', '-C', 'test key', '-f', file])
    if (made.status !== 0) throw new Error(String(made.stderr))
    return { file, publicKey: String(spawnSync('cat', [`${file}.pub`]).stdout) }
  }

  /** Options of OpenSSH's programs for this server. */
  options(identity?: string): string[] {
    const quiet = [
      'StrictHostKeyChecking=no',
      'UserKnownHostsFile=/dev/null',
      'LogLevel=ERROR',
      'NumberOfPasswordPrompts=1',
    ]
    const how =
      identity === undefined
        ? ['PubkeyAuthentication=no', 'PreferredAuthentications=password']
        : [`IdentityFile=${identity}`, 'IdentitiesOnly=yes', 'IdentityAgent=none', 'PasswordAuthentication=no']
    return ['-F', '/dev/null', ...[...quiet, ...how].flatMap((option) => ['-o', option])]
  }

  /** OpenSSH's `sftp` with these commands. */
  sftp(
    commands: readonly string[],
    { user = this.user, password = PASSWORD, identity }: { user?: string; password?: string; identity?: string } = {},
  ): Promise<Ended> {
    const args = ['-q', '-b', '-', '-P', String(this.port), ...this.options(identity), `${user}@127.0.0.1`]
    return this.#withPassword(identity, 'sftp', args, { password, input: `${commands.join('\n')}\n` })
  }

  /** Those of the commands that fail, all of them given to one `sftp`. */
  async failing(commands: readonly string[], { user = this.user }: { user?: string } = {}): Promise<string[]> {
    const args = ['-q', '-b', '-', '-P', String(this.port), ...this.options(), `${user}@127.0.0.1`]
    const all = ['-e', 'sftp', '-o', 'BatchMode=no', ...args]
    // A `-` in front has it go on. What it says of a command stands below the command only in one stream.
    const { out } = await run('sh', ['-c', 'exec "$@" 2>&1', 'sh', 'sshpass', ...all], {
      input: commands.map((command) => `-${command}\n`).join(''),
      env: { SSHPASS: PASSWORD },
    })
    const [, ...said] = out.split('sftp> -')
    const failed = said.filter((text) =>
      /denied|not found|failure|couldn't|can't|no such/i.test(text.replace(/.*/, '')),
    )
    return failed.map((text) => text.split(/[\r\n]/)[0] ?? '')
  }

  /** Another program of OpenSSH. */
  run(
    program: string,
    args: readonly string[],
    { password = PASSWORD, input = '', identity }: { password?: string; input?: string; identity?: string } = {},
  ): Promise<Ended> {
    return this.#withPassword(identity, program, [...this.options(identity), ...args], { password, input })
  }

  async audit(action: string) {
    const rows = await this.panel.client.call(listAuditLogs, { query: { action, limit: 100 } as never })
    return rows as readonly {
      action: string
      resourceId: string
      userId: string | null
      details: Record<string, unknown>
    }[]
  }

  async close(): Promise<void> {
    await this.panel.close()
    rmSync(this.local, { recursive: true, force: true })
  }

  write(name: string, content: string | Buffer): string {
    const path = join(this.local, name)
    writeFileSync(path, content)
    return path
  }

  #withPassword(
    identity: string | undefined,
    program: string,
    args: readonly string[],
    { password, input }: { readonly password: string; readonly input: string },
  ): Promise<Ended> {
    if (identity !== undefined) return run(program, args, { input })
    // `sftp -b` forbids questions, which a password is.
    const allowed = program === 'sftp' ? ['-o', 'BatchMode=no', ...args] : args
    return run('sshpass', ['-e', program, ...allowed], { input, env: { SSHPASS: password } })
  }
}

/** Runs a program to its own end, for so long at most. */
export function run(
  program: string,
  args: readonly string[],
  {
    input = '',
    env = {},
    timeoutMs = 60_000,
  }: {
    readonly input?: string
    readonly env?: Readonly<Record<string, string>>
    readonly timeoutMs?: number
  } = {},
): Promise<Ended> {
  const child = spawn(program, args, { env: { ...process.env, ...env }, timeout: timeoutMs, killSignal: 'SIGKILL' })
  let [out, err] = ['', '']
  child.stdout.on('data', (piece) => (out += String(piece)))
  child.stderr.on('data', (piece) => (err += String(piece)))
  child.stdin.on('error', () => {}) // one that has ended takes no more
  child.stdin.end(input)
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (status) => resolve({ status, out, err }))
  })
}

function folderOf(panel: TestPanel, serverId: string): string {
  return join(panel.dataDir, 'agent', 'servers', serverId)
}

async function makePerson(panel: TestPanel, username: string): Promise<SftpPerson> {
  const email = `${username}@example.org`
  const user = await panel.client.call(createUser, { body: { email, username, password: PASSWORD } as never })
  const { token } = await panel.as(undefined).call(login, { body: { email, password: PASSWORD } })
  return { id: user.id, username, email, client: panel.as(token), token }
}

async function makeServer(
  panel: TestPanel,
  { ownerId, templateId, diskMb, name }: { ownerId: string; templateId: string; diskMb: number; name: string },
): Promise<ServerId> {
  const { client, nodeId, locationId } = panel
  const sizes = { allocatedMemoryMb: 64, allocatedCpuCores: 0.5, allocatedDiskMb: diskMb }
  const place = { nodeId, locationId, templateId, ownerId, primaryPort: await quietPort() }
  const { id } = await client.call(createServer, { body: { name, ...sizes, ...place } as never })
  await eventually(
    () => client.call(getServer, { params: { serverId: id } }),
    ({ installed, status }) => installed && status === 'stopped',
  )
  return id
}
