import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  closeSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { DockerRuntime } from '../../../src/agent/runtime/docker/docker-runtime.ts'
import { HeldRuns } from '../../../src/agent/runtime/held-runs.ts'
import type { Run, RunPlan, ServerPlace } from '../../../src/agent/runtime/runtime.ts'
import { ServerUsers } from '../../../src/agent/runtime/server-users.ts'
import { systemClock } from '../../../src/shared/kernel/time.ts'
import { HOLDER, LIMITS, until } from '../runtime/rig.ts'

const BUSYBOX = '/bin/busybox'
/** A bridge of the machine for containers, of this test file alone; `gateway` is the machine's address at it. */
export class TestBridge {
  // One file has one, and runs in a process of its own.
  readonly name = `panel-${process.pid}`
  readonly gateway = `10.${200 + (process.pid % 50)}.${Math.floor(process.pid / 50) % 250}.1`

  constructor() {
    execFileSync('ip', ['link', 'add', this.name, 'type', 'bridge'])
    execFileSync('ip', ['addr', 'add', `${this.gateway}/24`, 'dev', this.name])
    execFileSync('ip', ['link', 'set', this.name, 'up'])
  }

  remove(): void {
    execFileSync('ip', ['link', 'del', this.name])
  }
}

/** Why no engine can be started here; `undefined` where one can. */
export function noEngine(): string | undefined {
  if (process.getuid?.() !== 0) return 'root'
  if (!existsSync('/usr/sbin/dockerd') && !existsSync('/usr/bin/dockerd')) return 'dockerd'
  return existsSync(BUSYBOX) ? undefined : 'busybox-static'
}

/** A Docker engine of its own, in a folder of its own, and a runtime on it. It has one image, `game:1`, of a busybox. */
export class EngineStage {
  readonly folder = mkdtempSync(join(tmpdir(), 'panel-engine-'))
  readonly dataDir = join(this.folder, 'agent')
  readonly socket = join(this.folder, 'docker.sock')
  readonly registries: Record<string, { username: string; passwordFile: string }> = {}
  readonly runs = new HeldRuns({ execArgv: HOLDER, clock: systemClock })
  readonly runtime = new DockerRuntime({
    dataDir: this.dataDir,
    runs: this.runs,
    users: new ServerUsers(this.dataDir),
    sockets: [join(this.folder, 'none.sock'), this.socket],
    network: 'host',
    registries: this.registries,
    clock: systemClock,
  })
  /** Whether the next engine leaves containers alive when it ends. */
  liveRestore = true
  #bridge = 'none'
  protected daemon: ChildProcess | undefined
  #containerd: ChildProcess | undefined

  static async begin(bridge = 'none', stage = new EngineStage()): Promise<EngineStage> {
    stage.#bridge = bridge
    mkdirSync(stage.dataDir)
    stage.startContainerd()
    await stage.startEngine()
    await stage.importImage('game:1')
    return stage
  }

  /** What the engine's containers run under: a service of its own, as on most machines, which outlives the engine. */
  startContainerd(): void {
    const at = (name: string): string => join(this.folder, name)
    const folders = ['--root', at('containerd'), '--state', at('containerd-state'), '--address', at('containerd.sock')]
    this.#containerd = spawn('containerd', ['--config', '/dev/null', ...folders], { stdio: 'ignore' })
  }

  /** Starts the engine. */
  async startEngine(): Promise<void> {
    const at = (name: string): string => join(this.folder, name)
    const folders = [
      '--data-root',
      at('data'),
      '--exec-root',
      at('exec'),
      '--pidfile',
      at('pid'),
      '-H',
      `unix://${this.socket}`,
      '--containerd',
      at('containerd.sock'),
    ]
    // An engine that was killed leaves it, and the number may be somebody's by now.
    rmSync(at('pid'), { force: true })
    const log = openSync(at('log'), 'a')
    const more = [`--bridge=${this.#bridge}`, '--iptables=false', ...(this.liveRestore ? ['--live-restore'] : [])]
    const daemon = spawn('dockerd', [...folders, ...more], { stdio: ['ignore', log, log] })
    closeSync(log)
    this.daemon = daemon
    await until('the engine', async () => {
      if (daemon.exitCode !== null)
        throw new Error(`the engine has ended: ${readFileSync(at('log'), 'utf8').slice(-1000)}`)
      return (await this.call('GET', '/_ping').catch(() => '')) === 'OK'
    })
  }

  async endEngine(signal: 'SIGTERM' | 'SIGKILL'): Promise<void> {
    const daemon = this.daemon
    if (daemon === undefined || daemon.exitCode !== null || daemon.signalCode !== null) return
    const ended = new Promise((resolve) => daemon.once('exit', resolve))
    daemon.kill(signal)
    await ended
  }

  /** A call of the engine past the program; resolves with the text of its answer. */
  call(method: string, path: string, body?: Buffer, more: Record<string, string> = {}): Promise<string> {
    return new Promise((resolve, reject) => {
      const headers = { ...(body === undefined ? {} : { 'content-type': 'application/x-tar' }), ...more }
      const sent = request({ socketPath: this.socket, method, path, headers }, (answer) => {
        let text = ''
        answer.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        answer.on('end', () => resolve(text))
        answer.on('error', reject)
      })
      sent.on('error', reject)
      sent.end(body)
    })
  }

  /** Makes an image of a busybox; `programs` are files and folders of this machine, which it has with the libraries of the programs. */
  async importImage(name: string, moreMb = 0, programs: readonly string[] = []): Promise<void> {
    const root = mkdtempSync(join(this.folder, 'image-'))
    for (const folder of ['bin', 'tmp', 'run', 'home/container', 'mnt/server'])
      mkdirSync(join(root, folder), { recursive: true })
    if (moreMb > 0) writeFileSync(join(root, 'more'), randomBytes(moreMb * 1024 * 1024))
    execFileSync('cp', [BUSYBOX, join(root, 'bin')])
    const commands = execFileSync(BUSYBOX, ['--list'], { encoding: 'utf8' }).trim().split('\n')
    for (const command of commands.filter((one) => one !== 'busybox'))
      symlinkSync('busybox', join(root, 'bin', command))
    for (const path of withLibraries(programs)) {
      mkdirSync(dirname(join(root, path)), { recursive: true })
      cpSync(path, join(root, path), { recursive: true, dereference: true })
    }
    const archive = execFileSync('tar', ['-C', root, '-c', '.'], { maxBuffer: 512 * 1024 * 1024 })
    const colon = name.lastIndexOf(':')
    const query = `fromSrc=-&repo=${name.slice(0, colon)}&tag=${name.slice(colon + 1)}`
    await this.call('POST', `/images/create?${query}`, archive)
    rmSync(root, { recursive: true })
  }

  /** Gives the image `game:1` a further name. */
  async tag(name: string): Promise<{ repo: string; tag: string }> {
    const colon = name.lastIndexOf(':')
    const [repo, tag] = [name.slice(0, colon), name.slice(colon + 1)]
    await this.call('POST', `/images/game:1/tag?repo=${repo}&tag=${tag}`)
    return { repo, tag }
  }

  /** Gives the image `game:1` another name, and the registry of that name has it then, and the engine has not. */
  async push(name: string, account: { username: string; password: string }): Promise<void> {
    const { repo, tag } = await this.tag(name)
    const auth = Buffer.from(JSON.stringify(account)).toString('base64')
    const said = await this.call('POST', `/images/${repo}/push?tag=${tag}`, undefined, { 'x-registry-auth': auth })
    if (said.includes('"error"')) throw new Error(said.replaceAll('\r\n', ' '))
    await this.call('DELETE', `/images/${name}`)
    // The layers go with the last name of them.
    await this.call('DELETE', '/images/game:1?force=1')
    await this.importImage('game:1')
  }

  /** The same of an image of that size. */
  async pushLarge(name: string, account: { username: string; password: string }, sizeMb: number): Promise<void> {
    await this.importImage('game:1', sizeMb)
    await this.push(name, account)
  }

  place(serverId: string): ServerPlace {
    return { serverId, files: join(this.dataDir, 'servers', serverId), state: join(this.dataDir, 'state', serverId) }
  }

  async start(place: ServerPlace, script: string, more: Partial<RunPlan> = {}): Promise<Run> {
    await this.runtime.prepare(place)
    const launchId = globalThis.crypto.randomUUID()
    const argv = ['/bin/sh', '-c', script] as const
    const plan: RunPlan = {
      kind: 'game',
      launchId,
      argv,
      env: {},
      image: 'game:1',
      ports: [],
      limits: LIMITS,
      logMb: 64,
    }
    return await this.runtime.start(place, { ...plan, ...more })
  }

  /** The containers that the engine has, by the ids of their servers. */
  async containers(): Promise<string[]> {
    return (await this.#list()).map(({ Labels }) => Labels['panel.server'] ?? '')
  }

  /** The containers that the engine has, or those of a server. */
  async listed(serverId?: string): Promise<{ id: string; labels: Record<string, string>; state: string }[]> {
    const all = (await this.#list()).map(({ Id, Labels, State }) => ({ id: Id, labels: Labels, state: State }))
    return all.filter(({ labels }) => serverId === undefined || labels['panel.server'] === serverId)
  }

  /** The same call with JSON. */
  async post(path: string, body: object): Promise<string> {
    return await this.call('POST', path, Buffer.from(JSON.stringify(body)), { 'content-type': 'application/json' })
  }

  /** What the engine knows of the one container of a server. */
  async inspect(serverId: string): Promise<{
    Image: string
    HostConfig: Record<string, unknown>
    NetworkSettings: { Networks: Record<string, unknown> }
  }> {
    const [one] = await this.listed(serverId)
    return JSON.parse(await this.call('GET', `/containers/${one?.id}/json`))
  }

  /** Makes a container that does not start, and resolves with its id. */
  async create(name: string, labels: Readonly<Record<string, string>>): Promise<string> {
    const body = { Image: 'game:1', Cmd: ['sleep', '1000'], Labels: labels }
    return JSON.parse(await this.post(`/containers/create?name=${name}`, body)).Id
  }

  async #list(): Promise<{ Id: string; State: string; Labels: Record<string, string> }[]> {
    return JSON.parse(await this.call('GET', '/containers/json?all=1'))
  }

  /** Removes the containers of a server, as somebody with a shell would. */
  async removeContainersOf(serverId: string): Promise<void> {
    for (const { Id, Labels } of await this.#list()) {
      if (Labels['panel.server'] === serverId) await this.call('DELETE', `/containers/${Id}?force=1`)
    }
  }

  /** Writes a file that a running script waits for. */
  go(place: ServerPlace, name = 'go'): void {
    writeFileSync(join(place.files, name), '')
  }

  async end(used: readonly ServerPlace[]): Promise<void> {
    if (this.daemon?.exitCode !== null || this.daemon.signalCode !== null)
      await this.startEngine().catch(() => undefined)
    for (const place of used) {
      const found = await this.runs.adopt(place)
      if (found === undefined) continue
      if ('run' in found) await found.run.signal('SIGKILL').catch(() => undefined)
      await this.runs.forget(place, ('run' in found ? await found.run.exited : found.exit).launchId)
    }
    await this.endEngine('SIGTERM')
    const containerd = this.#containerd
    if (containerd !== undefined) {
      const ended = new Promise((resolve) => containerd.once('exit', resolve))
      containerd.kill('SIGTERM')
      await ended
    }
    execFileSync('sh', [
      '-c',
      'for m in $(grep -o " $1[^ ]*" /proc/self/mounts); do umount -l "$m"; done',
      'sh',
      this.folder,
    ])
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** The paths, and the libraries that the programs among them load. */
function withLibraries(paths: readonly string[]): ReadonlySet<string> {
  const files = paths.filter((path) => statSync(path).isFile())
  const libraries = files.flatMap((path) => {
    const said = execFileSync('ldd', [path], { encoding: 'utf8' })
    return [...said.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)].map(([, library = '']) => library)
  })
  return new Set([...paths, ...libraries])
}
