import { oneLine } from '../../shared/kernel/terminal-text.ts'
import type { Args } from './args.ts'
import type { Environment } from './environment.ts'
import { CliFailure, usage } from './failure.ts'
import { readText } from './read-file.ts'
import { readAll, type Terminal } from './terminal.ts'

/** Options of a question. */
export interface Asking {
  readonly initial?: string
  /** What is wrong with an answer; it is asked for again until nothing is. */
  readonly check?: (answer: string) => string | undefined
}

/** Questions to the person at the terminal; without one every question is an error that names the flag to pass. */
export interface Prompt {
  /** Whether questions can be asked. */
  readonly possible: boolean
  /** Agreement to something that can be repaired; `--yes` gives it in advance. */
  confirm(question: string): Promise<void>
  /** Agreement to something that destroys data: the name is typed, or passed as `--confirm <name>`. */
  confirmName(question: string, name: string): Promise<void>
  /** A text; `flag` is what to pass instead. */
  ask(question: string, flag: string, more?: Asking): Promise<string>
  /** A secret, not echoed; `flag` is what to pass instead. */
  secret(question: string, flag: string, more?: Pick<Asking, 'check'>): Promise<string>
}

/** Prompts on stderr, so that stdout stays data. */
export function createPrompt(terminal: Terminal, env: Environment, args: Args): Prompt {
  const blocked = env.noInput || env.ci || args.choice('input') === false
  const possible = !blocked && terminal.stdin.isTTY === true && terminal.stderr.isTTY === true
  const context = { input: terminal.stdin, output: terminal.stderr }
  return {
    possible,
    confirm: async (question) => {
      if (args.flag('yes')) return
      if (!possible) throw confirmationRequired(question, '--yes')
      const { confirm } = await import('@inquirer/prompts')
      if (!(await confirm({ message: oneLine(question), default: false }, context))) throw cancelled()
    },
    confirmName: async (question, name) => {
      const given = args.text('confirm')
      if (given === name) return
      if (given !== undefined) throw usage(`--confirm '${given}' is not the name '${name}'`)
      if (!possible) throw confirmationRequired(question, `--confirm '${name}'`)
      const { input } = await import('@inquirer/prompts')
      const typed = await input({ message: oneLine(`${question} Type ${name} to go on:`) }, context)
      if (typed.trim() !== name) throw cancelled()
    },
    ask: async (question, flag, { initial, check } = {}) => {
      if (!possible) throw usage(`${flag} is required`)
      const { input } = await import('@inquirer/prompts')
      const config = { message: oneLine(question), required: true, validate: validator(check) }
      return input(initial === undefined ? config : { ...config, default: initial }, context)
    },
    secret: async (question, flag, { check } = {}) => {
      if (!possible) throw usage(`${flag} is required: a secret is read from stdin or asked on a terminal`)
      const { password } = await import('@inquirer/prompts')
      return password({ message: oneLine(question), validate: validator(check) }, context)
    },
  }
}

/** A secret by `--<name>-stdin`, `--<name>-file` or a hidden question; never by the value of a flag. */
export async function readSecret(
  wanted: { readonly name: string; readonly question: string } & Pick<Asking, 'check'>,
  source: { readonly args: Args; readonly terminal: Terminal; readonly prompt: Prompt },
): Promise<string> {
  const { args, terminal, prompt } = source
  const file = args.text(`${wanted.name}-file`) ?? args.text('secret-file')
  if (args.flag(`${wanted.name}-stdin`) || file === '-') return firstLine(await readAll(terminal.stdin), 'stdin')
  if (file !== undefined) return firstLine(await readText(file), file)
  return prompt.secret(wanted.question, `--${wanted.name}-stdin`, wanted)
}

/** As @inquirer/prompts wants it: `true`, or what is wrong. */
function validator(check: Asking['check']): (answer: string) => true | string {
  return (answer) => check?.(answer) ?? true
}

function firstLine(text: string, source: string): string {
  const line = text.split(/\r?\n/, 1)[0] ?? ''
  if (line === '') throw usage(`${source} is empty`)
  return line
}

function confirmationRequired(question: string, flag: string): CliFailure {
  return new CliFailure('CONFIRMATION_REQUIRED', `${question} This needs your agreement.`, { hint: flag })
}

function cancelled(): CliFailure {
  return new CliFailure('CONFIRMATION_REQUIRED', 'cancelled, nothing was changed')
}
