import { Readable, Writable } from 'node:stream'
import type { Command } from '../../src/cli/kit/command.ts'
import { readEnvironment } from '../../src/cli/kit/environment.ts'
import { settleJson } from '../../src/cli/kit/help-request.ts'
import { parse } from '../../src/cli/kit/program.ts'
import { reportOf, reportText } from '../../src/cli/kit/report.ts'
import { createRun } from '../../src/cli/kit/run.ts'
import type { Terminal } from '../../src/cli/kit/terminal.ts'
import type { Roles } from '../../src/cli/roles.ts'
import { tree } from '../../src/cli/whole-tree.ts'
import { terminalText } from '../../src/shared/kernel/terminal-text.ts'

/** What a command came to. */
export interface RanHere {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Those that take a file and a folder and end, as bin/panel.ts has them. */
const ROLES: Partial<Roles> = {
  examineSelfBackup: async (given) => (await import('../../src/daemon/self-restore.ts')).examineSelfBackup(given),
  restorePanel: async (given) => (await import('../../src/daemon/self-restore.ts')).restorePanel(given),
}

/** Runs a command in this process, without a terminal: for what needs no process of its own, which costs 0.3 s. */
export async function runHere(
  argv: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly input?: string } = {},
): Promise<RanHere> {
  const env = readEnvironment(options.env ?? {})
  const [out, err] = [collector(), collector()]
  const terminal = {
    stdin: Readable.from([options.input ?? '']),
    stdout: out.stream,
    stderr: err.stream,
    write: async (text: string) => void out.stream.write(text),
    writeBytes: async (bytes: Uint8Array) => void out.stream.write(bytes),
    say: (text: string) => void err.stream.write(`${terminalText(text)}\n`),
  } as Partial<Terminal> as Terminal // streams that are no terminal, as in a pipe
  const done = (code: number): RanHere => ({ code, stdout: out.text(), stderr: err.text() })
  let command: Command | undefined
  try {
    const invocation = parse(tree, settleJson(tree, argv))
    if (invocation.kind === 'help') return { code: 0, stdout: invocation.text, stderr: '' }
    const { path, args } = invocation
    command = invocation.command
    const roles = ROLES as Roles // no command of these tests plays another one
    const run = createRun({
      command,
      tree: async () => tree,
      path,
      args,
      env,
      terminal,
      roles,
      signal: new AbortController().signal,
    })
    try {
      const action = await command.load()
      return done((await action(run)) ?? 0)
    } finally {
      await run.close()
    }
  } catch (error) {
    const report = reportOf(error)
    err.stream.write(reportText(report, command))
    return done(report.exit)
  }
}

function collector(): { readonly stream: Writable; text(): string } {
  const parts: Buffer[] = []
  const stream = new Writable({
    write: (part: Buffer, _, done) => {
      parts.push(part)
      done()
    },
  })
  return { stream, text: () => Buffer.concat(parts).toString('utf8') }
}
