import { spawn, spawnSync } from 'node:child_process'
import { chownSync, closeSync, constants, fstatSync, openSync } from 'node:fs'
import { createRequire } from 'node:module'
import { BeginFailure } from '../child.ts'
import type { HeldConsole, HolderPaths } from '../holder-files.ts'
import { TOOL_PATH } from './launcher.ts'

/** A terminal whose other end somebody else keeps. */
export interface Terminal {
  /** The program's end. The caller closes it when the program has it. */
  readonly fd: number
  /** Its name on this machine. */
  readonly path: string
}

/**
 * Copies between a terminal and the FIFOs of a run: descriptor 0 is the panel's end of the terminal, 1 the FIFO of the output, 3 that
 * of the input. It ends when nobody has the program's end open any more and all that was written there is in the FIFO.
 */
const RELAY = `
exec 4<&0
cat <&3 >&4 4<&- &
writer=$!
cat 3<&- 4<&-
kill "$writer"
`

/** The part of the package's binary that is used: it opens the two ends of a terminal and gives it a size. */
interface TerminalBinary {
  open(columns: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string }
}

/** Whether terminals can be opened on this machine: there are binaries for glibc on x64 and arm64. */
export function hasTerminals(): boolean {
  try {
    loadBinary()
    return true
  } catch {
    return false // not installed, or not for this machine: whoever wants one is refused with the reason
  }
}

/**
 * Opens a terminal for a program of the user `uid` (`null`: the agent's own). Its panel's end is kept by a process of its own, which
 * copies to and from the run's FIFOs and outlives this one: a terminal without that end would end the program. The FIFO of the output
 * must be open for reading. Echo is off, because typed lines are in the console already.
 */
export function openTerminal(paths: HolderPaths, size: HeldConsole & { kind: 'pty' }, uid: number | null): Terminal {
  const { master, slave, pty } = openEnds(size)
  let fd: number | undefined
  try {
    // Another description of the same terminal: the one that comes with it does not block, which programs do not expect.
    fd = openSync(pty, constants.O_RDWR | constants.O_NOCTTY)
    // Programs inherit it, and the relay would keep it open.
    closeSync(slave)
    const set = spawnSync('stty', ['-echo', '-onlcr'], {
      stdio: [fd, 'ignore', 'pipe'],
      env: { PATH: TOOL_PATH },
      encoding: 'utf8',
    })
    if (set.status !== 0) throw new BeginFailure(`A terminal could not be set up: ${set.stderr || String(set.error)}`)
    if (uid !== null) chownSync(pty, uid, fstatSync(fd).gid)
    startRelay(paths, master)
    return { fd, path: pty }
  } catch (error) {
    closeSync(fd ?? slave)
    throw error
  } finally {
    closeSync(master)
  }
}

/** What a terminal does with a key, by the terminal's name or another path to it; `undefined` when it cannot be asked. */
export async function signalsAt(path: string, key: '^C' | '^\\'): Promise<boolean | undefined> {
  const said = await stty(['-a', '-F', path])
  if (said === undefined) return undefined
  const flags = said.split(/[\s;]+/)
  const name = key === '^C' ? 'intr' : 'quit'
  return flags.includes('isig') && said.includes(`${name} = ${key};`)
}

/** Turns off the echo of a terminal that somebody else has made. It stays on where that is not allowed. */
export async function turnOffEcho(path: string): Promise<void> {
  await stty(['-F', path, '-echo'])
}

function openEnds({ columns, rows }: { readonly columns: number; readonly rows: number }) {
  let binary: TerminalBinary
  try {
    binary = loadBinary()
  } catch {
    throw new BeginFailure(
      'This node cannot open terminals: the package @lydell/node-pty is not installed or has no binary for this machine; ' +
        'install it, or give the template another console',
    )
  }
  return binary.open(columns, rows)
}

function loadBinary(): TerminalBinary {
  const require = createRequire(import.meta.url)
  const { requireBinary } = require('@lydell/node-pty/requireBinary.js') as {
    requireBinary(file: string): TerminalBinary
  }
  return requireBinary('pty.node')
}

function startRelay(paths: HolderPaths, master: number): void {
  // Both directions: neither the end of a holder nor its absence is an end of file, or of the pipe, to it.
  const [output, input] = [paths.stdout, paths.stdin].map((path) => openSync(path, constants.O_RDWR))
  try {
    // What becomes descriptor 0 of a child is made to block, as `cat` needs it.
    const relay = spawn('/bin/sh', ['-c', RELAY], {
      stdio: [master, output, 'ignore', input],
      cwd: '/',
      env: { PATH: TOOL_PATH },
      detached: true,
    })
    relay.unref()
    relay.on('error', () => undefined) // the terminal is closed then, which ends the program
  } finally {
    for (const fd of [output, input]) if (fd !== undefined) closeSync(fd)
  }
}

const STTY_MS = 2000

function stty(args: readonly string[]): Promise<string | undefined> {
  return new Promise((resolve) => {
    const options = { env: { PATH: TOOL_PATH, LC_ALL: 'C' }, timeout: STTY_MS }
    const asked = spawn('stty', args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] })
    let said = ''
    asked.stdout.setEncoding('latin1').on('data', (text: string) => {
      said = (said + text).slice(0, 8192)
    })
    asked.once('error', () => resolve(undefined))
    asked.once('close', (code) => resolve(code === 0 ? said : undefined))
  })
}
