import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, rmdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../e2e/wait.ts'
import { ROOT } from '../module-graph.ts'
import { DIST } from '../run-panel.ts'

/** What a command came to. */
interface Ended {
  readonly code: number | null
  readonly output: string
}

/** A program that goes on in a machine. */
export interface Running {
  readonly output: () => string
  /** Types a line into it. */
  type(line: string): void
  /** Waits until its output has the text. */
  says(text: string, ms?: number): Promise<void>
  readonly ended: Promise<Ended>
}

/** Why this machine cannot play two; `undefined`: it can. */
export function noMachines(): string | undefined {
  if (process.getuid?.() !== 0) return 'needs root'
  const tried = spawnSync('unshare', [...NAMESPACES, 'bash', '-ec', overlay('/etc')], { encoding: 'utf8' })
  return tried.status === 0 ? undefined : `needs namespaces and overlay mounts: ${tried.stderr.trim()}`
}

const NAMESPACES = ['--net', '--mount', '--pid', '--fork', '--mount-proc', '--propagation', 'private']

/** Writes below the folder stay in this machine. */
function overlay(folder: string): string {
  return `
    own=$(mktemp -d /tmp/panel-overlay-XXXXXX); mount -t tmpfs tmpfs $own; mkdir $own/up $own/work
    mount -t overlay overlay -o lowerdir=${folder},upperdir=$own/up,workdir=$own/work ${folder}
    umount -l $own; rmdir $own`
}

/**
 * A machine of its own as far as files, network and processes go: `/etc` and `/var/lib` can be written without a trace, `clone` is a
 * folder with the program as a clone has it after `npm install`, and its home is empty.
 */
export class Machine {
  readonly #folder: string
  readonly #holder: ChildProcess
  readonly #init: number

  static async boot(hosts: Readonly<Record<string, string>>): Promise<Machine> {
    const folder = await mkdtemp(join(tmpdir(), 'panel-machine-'))
    const lines = Object.entries(hosts).map(([name, address]) => `${address} ${name}`)
    const script = `
      ${overlay('/etc')}
      ${overlay('/var/lib')}
      chmod 755 ${folder}; mount -t tmpfs -o mode=755 tmpfs ${folder}; mount -t tmpfs tmpfs /run
      mkdir -p ${folder}/clone/dist ${folder}/clone/node_modules ${folder}/home
      mount --bind ${DIST} ${folder}/clone/dist; mount --bind ${join(ROOT, 'node_modules')} ${folder}/clone/node_modules
      cp -r ${['package.json', 'panel', 'templates', 'man'].map((name) => join(ROOT, name)).join(' ')} ${folder}/clone/
      printf '%s\\n' ${lines.map((line) => `'${line}'`).join(' ')} >> /etc/hosts
      ip link set lo up; echo booted; exec sleep infinity`
    const holder = spawn('unshare', [...NAMESPACES, 'bash', '-ec', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    holder.stdout?.on('data', (chunk) => {
      said += String(chunk)
    })
    await until('the machine has booted', async () => said.includes('booted'))
    const children = readFileSync(`/proc/${holder.pid}/task/${holder.pid}/children`, 'utf8')
    return new Machine(folder, holder, Number(children.trim().split(' ')[0]))
  }

  private constructor(folder: string, holder: ChildProcess, init: number) {
    this.#folder = folder
    this.#holder = holder
    this.#init = init
  }

  /** A cable between two machines, with an address at each end. */
  static connect(a: Machine, b: Machine, addresses: readonly [string, string]): void {
    const link = ['link', 'add', 'wire0', 'netns', String(a.#init), 'type', 'veth', 'peer', 'name', 'wire0', 'netns']
    const { status, stderr } = spawnSync('ip', [...link, String(b.#init)], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`no cable: ${stderr}`)
    for (const [machine, address] of [
      [a, addresses[0]],
      [b, addresses[1]],
    ] as const) {
      spawnSync('nsenter', [...machine.#inside(), 'ip', 'address', 'add', `${address}/24`, 'dev', 'wire0'])
      spawnSync('nsenter', [...machine.#inside(), 'ip', 'link', 'set', 'wire0', 'up'])
    }
  }

  /** Runs lines of a shell in the clone until they end; the first that fails ends them. */
  async run(lines: string, input = ''): Promise<Ended> {
    const running = this.start(lines)
    running.type(input)
    return running.ended
  }

  /** Begins lines of a shell, on a terminal where that is wanted. */
  start(lines: string, { terminal = false } = {}): Running {
    const script = `cd ${this.#folder}/clone\n${lines}`
    const words = terminal ? ['script', '-qfec', `bash -ec ${quoted(script)}`, '/dev/null'] : ['bash', '-ec', script]
    const child = spawn('nsenter', [...this.#inside(), ...words], {
      env: { PATH: process.env['PATH'] ?? '', TERM: 'xterm', HOME: `${this.#folder}/home`, LC_ALL: 'C.UTF-8' },
      stdio: 'pipe',
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text
      })
    }
    child.stdin.on('error', () => {}) // it may end before it has read its input
    const ended = new Promise<Ended>((resolve) => child.on('close', (code) => resolve({ code, output })))
    return {
      output: () => output,
      type: (line) => (terminal ? child.stdin.write(`${line}\r`) : child.stdin.end(line)),
      says: async (text, ms = 60_000) => {
        const deadline = performance.now() + ms
        while (!output.includes(text)) {
          if (performance.now() > deadline) throw new Error(`it never said "${text}"; it said:\n${output}`)
          await new Promise((done) => setTimeout(done, 50))
        }
      },
      ended,
    }
  }

  /** Ends everything in it. */
  async shutDown(): Promise<void> {
    const gone = new Promise((done) => this.#holder.once('close', done))
    process.kill(this.#init, 'SIGKILL')
    await gone
    await rmdir(this.#folder)
  }

  #inside(): string[] {
    return ['--target', String(this.#init), '--net', '--mount', '--pid']
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
