import type { z } from 'zod'
import { Email, NewPassword, Username } from '../../shared/api/auth.ts'
import { mustBe } from '../../shared/kernel/refusal-words.ts'
import { readSecret } from './prompt.ts'
import type { Run } from './run.ts'

/** What {@link NewPassword} asks for, said before somebody thinks of one. */
const PASSWORD_RULES =
  'A password has 12 to 128 characters: upper-case and lower-case letters, a digit, and a character that is neither.'

/** A password to be: at a terminal its rules are said first, and a weak one is asked for again. */
export async function readNewPassword(run: Run, question: string): Promise<string> {
  const { args, prompt, terminal } = run
  const given = args.flag('password-stdin') || (args.text('password-file') ?? args.text('secret-file')) !== undefined
  if (prompt.possible && !given) terminal.say(PASSWORD_RULES)
  return readSecret({ name: 'password', question, check: checkedBy(NewPassword) }, run)
}

/** The e-mail address of an account to be, by its flag or a question. */
export async function askEmail(run: Run, flag: string, question: string): Promise<string> {
  return run.args.text(flag) ?? run.prompt.ask(question, `--${flag}`, { check: checkedBy(Email) })
}

/** The user name of an account to be, by its flag or a question. */
export async function askUsername(
  run: Run,
  flag: string,
  { question, initial }: { readonly question: string; readonly initial?: string },
): Promise<string> {
  const check = checkedBy(Username)
  return (
    run.args.text(flag) ?? run.prompt.ask(question, `--${flag}`, initial === undefined ? { check } : { initial, check })
  )
}

function checkedBy(schema: z.ZodType): (answer: string) => string | undefined {
  return (answer) => {
    const parsed = schema.safeParse(answer, { error: mustBe })
    return parsed.success ? undefined : `it ${parsed.error.issues.map(({ message }) => message).join(', ')}`
  }
}
