import { usage } from '../../kit/failure.ts'
import type { Run } from '../../kit/run.ts'
import { readAll } from '../../kit/terminal.ts'

/** A password with the code that may be asked for after it. */
export interface TypedSecrets {
  readonly password: string
  /** Asked for only when it is wanted. */
  readonly code: () => Promise<string>
}

/** The code of an authenticator, or a recovery code: from stdin, PANEL_TOTP or the terminal; never from the command line. */
export async function readCode(run: Run): Promise<string> {
  return plain(await typedCode(run))
}

/** A password, and a code when one is wanted; with both from stdin the password is the first line and the code the second. */
export async function readPasswordAndCode(run: Run): Promise<TypedSecrets> {
  const { args, terminal, prompt } = run
  if (!args.flag('password-stdin')) {
    return { password: await prompt.secret('Password:', '--password-stdin'), code: () => readCode(run) }
  }
  const text = await readAll(terminal.stdin)
  const code = args.flag('totp-stdin') ? async () => plain(line(text, 1)) : () => readCode(run)
  return { password: line(text, 0), code }
}

async function typedCode(run: Run): Promise<string> {
  if (run.args.flag('totp-stdin')) return line(await readAll(run.terminal.stdin), 0)
  if (run.env.totp !== undefined) return run.env.totp
  return run.prompt.secret('Code of your authenticator, or a recovery code:', '--totp-stdin')
}

/** Authenticators show codes in groups: `123 456`. */
function plain(code: string): string {
  return code.replace(/\s/g, '')
}

function line(text: string, number: number): string {
  const found = text.split(/\r?\n/)[number]?.trim() ?? ''
  if (found === '') throw usage(number === 0 ? 'stdin is empty' : 'stdin has no second line with the code')
  return found
}
