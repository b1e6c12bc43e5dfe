import { type ChildProcessWithoutNullStreams, execFile, spawn } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { chown, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { NewTemplate } from '../../src/shared/api/template-fields.ts'

const LINE_WITHIN_MS = 15_000

/** As root, games run under a user of their own without a passwd entry, as an agent would run them. */
const OWN_USER = process.getuid?.() === 0 ? 71_001 : undefined

/** A server's folder in the temp folder, owned by the user that its game runs as. */
export async function makeServerFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'panel-game-'))
  if (OWN_USER !== undefined) await chown(folder, OWN_USER, OWN_USER)
  return folder
}

/** The environment that an agent gives to a server of this template, and nothing else. */
export function serverEnv(
  template: NewTemplate,
  folder: string,
  extra: Record<string, string>,
): Record<string, string> {
  return {
    PATH: '/usr/local/bin:/usr/bin:/bin',
    HOME: folder,
    LANG: 'C.UTF-8',
    TZ: 'UTC',
    PANEL_NODE: process.execPath,
    SERVER_IP: '127.0.0.1',
    ...Object.fromEntries(template.variables.map((variable) => [variable.name, variable.default])),
    ...extra,
  }
}

/** Runs the template's install script in the folder; resolves with its output, rejects when it fails. */
export async function install(template: NewTemplate, folder: string, env: Record<string, string>): Promise<string> {
  const script = join(folder, 'install.sh')
  await writeFile(script, template.installScript ?? '')
  const [file, ...args] = asOwnUser([template.installEntrypoint, script])
  const { stdout } = await promisify(execFile)(file, args, { cwd: folder, env })
  await rm(script)
  return stdout
}

/** A running game: its lines of both streams in the order of their arrival, its console, and its end. */
export class GameProcess {
  readonly lines: string[] = []
  readonly exited: Promise<{ code: number | null; signal: string | null }>
  readonly #child: ChildProcessWithoutNullStreams
  readonly #news = new EventEmitter()

  /** Starts the template's startup line by a shell, variables by environment. */
  constructor(template: NewTemplate, folder: string, env: Record<string, string>) {
    const startup = template.startup.replace(/\{\{([A-Za-z_]\w*)\}\}/g, '$${$1}')
    const [file, ...args] = asOwnUser(['sh', '-c', startup])
    this.#child = spawn(file, args, { cwd: folder, env, detached: true })
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      createInterface({ input: stream }).on('line', (line) => {
        this.lines.push(line)
        this.#news.emit('line')
      })
    }
    this.exited = once(this.#child, 'close').then(([code, signal]) => {
      this.#news.emit('line')
      return { code, signal }
    })
  }

  get pid(): number {
    if (this.#child.pid === undefined) throw new Error('the game was not started')
    return this.#child.pid
  }

  /** Resolves with the first line, from the `from`th on, that contains the text. */
  async line(text: string, from = 0): Promise<string> {
    const deadline = AbortSignal.timeout(LINE_WITHIN_MS)
    for (;;) {
      const found = this.lines.slice(from).find((line) => line.includes(text))
      if (found !== undefined) return found
      if (deadline.aborted || this.ended) {
        const last = this.lines.slice(-40).map((line) => line.slice(0, 200))
        throw new Error(`no line with "${text}"; the last lines:\n${last.join('\n')}`)
      }
      await once(this.#news, 'line', { signal: deadline }).catch(() => undefined) // the loop looks at the deadline
    }
  }

  /** Types a line into the console and resolves with the first later line that contains the text. */
  async ask(command: string, answer: string): Promise<string> {
    const from = this.lines.length
    this.type(command)
    return await this.line(answer, from)
  }

  type(command: string): void {
    this.#child.stdin.write(`${command}\n`)
  }

  closeInput(): void {
    this.#child.stdin.end()
  }

  /**
   * Resolves when the game's first thread sleeps, which a line read from it does not prove: the thread may still be
   * within the write, holding a lock that the game's handlers of signals want too (Luanti's do, and hang for ever).
   */
  async idle(): Promise<void> {
    const state = async () => / (\w) [^)]*$/.exec(await readFile(`/proc/${this.pid}/stat`, 'utf8'))?.[1]
    while ((await state()) !== 'S') await setImmediate()
  }

  signal(name: NodeJS.Signals): void {
    process.kill(-this.pid, name)
  }

  get ended(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null
  }

  /** Ends what is still there of it. */
  async dispose(): Promise<void> {
    if (!this.ended) this.signal('SIGKILL')
    await this.exited
  }
}

function asOwnUser(argv: [string, ...string[]]): [string, ...string[]] {
  if (OWN_USER === undefined) return argv
  const user = [`--reuid=${OWN_USER}`, `--regid=${OWN_USER}`, '--clear-groups', '--no-new-privs', '--bounding-set=-all']
  return ['setpriv', ...user, ...argv]
}
