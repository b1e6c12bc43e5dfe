import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { betweenLooks } from '../../looks.ts'
import { Control } from './control.ts'

const run = promisify(execFile)

/** A pane of tmux, on a tmux server of its own, in which a shell runs. */
export interface Pane {
  /** Types keys by the names of tmux. */
  keys(...names: string[]): Promise<void>
  /** Types text as it is. */
  text(text: string): Promise<void>
  /** Pastes text, in brackets when the program has asked for that. */
  paste(text: string): Promise<void>
  /** What stands on the screen; `styled` with its SGR sequences. */
  screen(styled?: boolean): Promise<string>
  /** Waits until the screen satisfies `wanted`; the screen then. */
  until(wanted: (screen: string) => boolean | Promise<boolean>, what: string, ms?: number): Promise<string>
  shows(text: string, ms?: number): Promise<string>
  /** Gives the focus to the log: an Escape that another key follows at once would be a key with Alt. */
  toLog(): Promise<void>
  resize(columns: number, rows: number): Promise<void>
  /** A format of tmux, such as `#{alternate_on}`. */
  display(format: string): Promise<string>
  /** From now on writes what the program sends to the terminal into a file as well; `undefined` ends it. */
  record(path: string | undefined): Promise<void>
  /** What programs have put on the clipboard; '' when nothing. */
  clipboard(): Promise<string>
  /** Closes the terminal, as a window that is closed or a connection that is cut. */
  hangUp(): Promise<void>
  /** A client that stays, for taking times; the caller closes it. */
  control(): Control
  close(): Promise<void>
}

/** Opens a pane with a shell whose prompt is `READY>`. */
export async function openPane(columns: number, rows: number, environment: Record<string, string> = {}): Promise<Pane> {
  const folder = await mkdtemp(join(tmpdir(), 'panel-tui-pane-'))
  const socket = join(folder, 'tmux')
  const { CI: _, NODE_ENV: __, TMUX: ___, ...clean } = process.env
  const env = { ...clean, ...environment, LC_ALL: 'C.UTF-8' }
  const tmux = async (...words: string[]): Promise<string> => {
    const { stdout } = await run('tmux', ['-u', '-S', socket, '-f', '/dev/null', ...words], { env, maxBuffer: 1 << 24 })
    return stdout
  }
  await tmux(
    'new-session',
    '-d',
    '-x',
    String(columns),
    '-y',
    String(rows),
    "env PS1='READY> ' HISTFILE= bash --norc --noprofile",
  )
  await tmux('set-option', '-g', 'status', 'off')
  await tmux('set-option', '-s', 'set-clipboard', 'on')
  await tmux('resize-window', '-x', String(columns), '-y', String(rows))
  const screen = (styled = false): Promise<string> => tmux('capture-pane', '-p', ...(styled ? ['-e'] : []))
  const until = async (
    wanted: (screen: string) => boolean | Promise<boolean>,
    what: string,
    ms = 10_000,
  ): Promise<string> => {
    const start = performance.now()
    for (;;) {
      const now = await screen()
      if (await wanted(now)) return now
      if (performance.now() > start + ms) throw new Error(`the screen never showed ${what}; it shows:\n${now}`)
      await betweenLooks(start)
    }
  }
  const pane: Pane = {
    keys: async (...names) => void (await tmux('send-keys', ...names)),
    text: async (text) => void (await tmux('send-keys', '-l', text)),
    paste: async (text) => {
      const path = join(folder, 'paste')
      await writeFile(path, text)
      await tmux('load-buffer', path)
      await tmux('paste-buffer', '-p', '-r')
    },
    screen,
    until,
    shows: (text, ms) => until((now) => now.includes(text), JSON.stringify(text), ms),
    toLog: async () => {
      await tmux('send-keys', 'Escape')
      await until(() => pane.display('#{cursor_flag}').then((shown) => shown === '0'), 'no cursor in the prompt')
    },
    resize: async (x, y) => void (await tmux('resize-window', '-x', String(x), '-y', String(y))),
    display: async (format) => (await tmux('display', '-p', format)).trim(),
    record: async (path) => void (await tmux('pipe-pane', ...(path === undefined ? [] : ['-O', `cat > ${path}`]))),
    clipboard: () => tmux('show-buffer').catch(() => ''),
    hangUp: async () => void (await tmux('kill-pane')),
    control: () =>
      new Control(['tmux', '-u', '-S', socket, '-C', 'attach-session', '-f', 'no-output,ignore-size'], env),
    close: async () => {
      await tmux('kill-server').catch(() => undefined) // it ends with its last pane
      await rm(folder, { recursive: true, force: true })
    },
  }
  return pane.shows('READY>').then(
    () => pane,
    async (error: unknown) => {
      await pane.close()
      throw error
    },
  )
}
