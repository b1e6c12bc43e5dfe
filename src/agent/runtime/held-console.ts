import type { HeldConsole } from '../holder/holder-files.ts'
import type { RunPlan } from './runtime.ts'

/** The size of a terminal whose template does not say one. */
const COLUMNS = 200
const ROWS = 50

/** What a holder does for the console of a plan beside pipes; the files of the server are in `folder`. */
export function heldConsole({ console }: RunPlan, folder: string): { console?: HeldConsole } {
  if (console?.kind === 'pty') {
    return { console: { kind: 'pty', columns: console.columns ?? COLUMNS, rows: console.rows ?? ROWS } }
  }
  return console?.kind === 'file' ? { console: { kind: 'file', folder, path: console.path } } : {}
}
