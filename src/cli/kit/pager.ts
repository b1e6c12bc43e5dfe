import { spawn } from 'node:child_process'
import { terminalText } from '../../shared/kernel/terminal-text.ts'
import type { Environment } from './environment.ts'
import { ReaderGone, type Terminal } from './terminal.ts'

/** A pager that is fed with text. */
export interface Pager {
  /** Resolves when the pager takes more; rejects with ReaderGone when the person has left it. */
  write(text: string): Promise<void>
  /** Resolves when the person has left it. */
  close(): Promise<void>
}

/** Starts the pager of PANEL_PAGER or PAGER; it inherits the terminal. Text of games reaches it escaped as for a terminal. */
export function createPager({ env, terminal }: { readonly env: Environment; readonly terminal: Terminal }): Pager {
  const child = spawn(env.pager ?? 'less', { shell: true, stdio: ['pipe', 'inherit', 'inherit'] })
  let gone = false
  const closed = new Promise<void>((resolve) => {
    child.on('close', () => {
      gone = true
      resolve()
    })
    child.on('error', (error) => {
      gone = true
      terminal.say(`the pager cannot be started: ${error.message}`)
      resolve()
    })
  })
  child.stdin.on('error', () => {
    gone = true // it was left before its end; the next write says so
  })
  return {
    write: (text) =>
      new Promise((resolve, reject) => {
        if (gone) return reject(new ReaderGone())
        child.stdin.write(terminalText(text, { colours: true }), (error) =>
          error === null || error === undefined ? resolve() : reject(new ReaderGone()),
        )
      }),
    close: async () => {
      child.stdin.end()
      await closed
    },
  }
}
