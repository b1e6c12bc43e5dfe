import { isatty } from 'node:tty'
import { pathBytes } from '../../shared/kernel/path-text.ts'
import { terminalText } from '../../shared/kernel/terminal-text.ts'
import { CliFailure } from './failure.ts'

/** The process's own streams and what they are attached to. */
export interface Terminal {
  readonly stdin: NodeJS.ReadStream
  readonly stdout: NodeJS.WriteStream
  readonly stderr: NodeJS.WriteStream
  /**
   * Writes to stdout; resolves when the text is handed to the system. A reader that has gone ends the program quietly. A
   * terminal gets no control character but colours, whatever the text is made of.
   */
  write(text: string): Promise<void>
  /** Bytes of a file, as they are; to a terminal as text. */
  writeBytes(bytes: Uint8Array): Promise<void>
  /** A notice for people, on stderr, without any control character. */
  say(text: string): void
  /** A line on stderr in the place of the last such one; '' takes it away. */
  progress(text: string): void
}

/** Thrown when nobody reads our output any more, as in `panel … | head -1`: not an error. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone'
}

/** The terminal of this process. `onGone` is called once when stdout's reader has left. */
export function createTerminal(onGone: () => void): Terminal {
  let end: Error | undefined
  // Node makes each of its streams when it is first looked at, which takes a while: most commands use one of them.
  const stdout = once(() =>
    process.stdout.on('error', (error: NodeJS.ErrnoException) => {
      end ??= endOf(error)
      if (!(end instanceof ReaderGone)) return // whoever writes gets it
      // The terminal was closed; whoever has to put something in order listens to the signal.
      if (error.code === 'EIO') process.kill(process.pid, 'SIGHUP')
      else onGone()
    }),
  )
  // Nobody reads stderr any more: nothing can be reported.
  const stderr = once(() => process.stderr.on('error', () => {}))
  const send = (data: string | Uint8Array): Promise<void> =>
    new Promise((resolve, reject) => {
      if (end !== undefined) return reject(end)
      if (data.length === 0) return resolve()
      stdout().write(data, (error) => {
        if (error === null || error === undefined) return resolve()
        end ??= endOf(error)
        reject(end)
      })
    })
  const decoder = new TextDecoder()
  return {
    get stdin() {
      return process.stdin
    },
    get stdout() {
      return stdout()
    },
    get stderr() {
      return stderr()
    },
    write: (text) => send(stdout().isTTY === true ? terminalText(text, { colours: true }) : named(text)),
    writeBytes: (bytes) =>
      send(stdout().isTTY === true ? terminalText(decoder.decode(bytes, { stream: true })) : bytes),
    say: (text) => stderr().write(`${terminalText(text)}\n`),
    progress: (text) => stderr().write(`\r\u001b[K${terminalText(text)}`),
  }
}

/** What it means for a command that stdout takes nothing more. */
function endOf(cause: NodeJS.ErrnoException): Error {
  const { code = 'unknown error' } = cause
  if (code === 'EPIPE' || code === 'EIO') return new ReaderGone()
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const hint = 'free some space, or write it elsewhere'
    return new CliFailure('HOST_PRECONDITION', 'stdout cannot be written: the disk is full', { hint, cause })
  }
  return new CliFailure('FILE_UNREADABLE', `stdout cannot be written (${code})`, { cause })
}

/** Those of the process's own descriptors that were terminals when it began. */
const TERMINALS = [0, 1, 2].filter((fd) => isatty(fd))

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined
  return () => {
    made ??= { value: make() }
    return made.value
  }
}

/** Names of files that are no UTF-8 reach files and pipes as the bytes that they are, as `sha256sum -c` wants them. */
function named(text: string): string | Uint8Array {
  return text.isWellFormed() ? text : (pathBytes(text) ?? text)
}

/**
 * Ends the process with this exit code, or by SIGHUP when its terminal was closed: at an exit Node gives the terminal its
 * settings back, and aborts with a core dump when that terminal is not there any more.
 */
export function exit(code: number): never {
  if (TERMINALS.some((fd) => !isatty(fd))) {
    process.removeAllListeners('SIGHUP')
    process.kill(process.pid, 'SIGHUP')
  }
  return process.exit(code)
}

/** All of stdin as text. */
export async function readAll(stdin: AsyncIterable<Buffer | string>): Promise<string> {
  const parts: Buffer[] = []
  for await (const part of stdin) parts.push(Buffer.from(part))
  return Buffer.concat(parts).toString('utf8')
}
