import * as api from '../../../shared/api/account-recovery.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { askEmail, askUsername, readNewPassword } from '../../kit/new-account.ts'
import { readSecret } from '../../kit/prompt.ts'
import type { Run } from '../../kit/run.ts'
import { readAll } from '../../kit/terminal.ts'
import { agreeOnListener } from './listener-consent.ts'
import { checkName, keep, keyForSession } from './login.ts'

/** Makes an account; where the address need not be confirmed it is signed in at once. */
export const register: Action = async (run) => {
  checkName(run)
  const { client, url } = await anonymous(run)
  const email = await askEmail(run, 'email', 'E-mail address:')
  const username = await askUsername(run, 'username', { question: 'User name:' })
  const password = await readNewPassword(run, 'Password:')
  const body = { email, username, password }
  const made = await client.call(api.register, { body }, { idempotencyKey: run.idempotencyKey() })
  if (made.token === null) {
    if (run.out.machine) return run.out.value({ username: made.username, context: null })
    return run.notice(`the account ${made.username} is made; a mail to ${email} says how to confirm the address`)
  }
  const context = await keep(run, url, await keyForSession(await run.connectTo(url, made.token), made.token))
  if (run.out.machine) return run.out.value({ username: made.username, context })
  run.notice(`the account ${made.username} is made and signed in (context ${context})`)
}

export const forgotPassword: Action = async (run) => {
  const { client } = await anonymous(run)
  await client.call(api.forgotPassword, { body: { email: run.args.required('email') } })
  run.notice('if there is such an account, a mail to it says how to set a new password')
}

/** Looks at the token before it asks for a password. */
export const resetPassword: Action = async (run) => {
  const { client } = await anonymous(run)
  const [token, typed] = await tokenAndPassword(run)
  const { valid } = await client.call(api.validateReset, { query: { token } })
  if (!valid) throw new PanelError('TOKEN_INVALID', 'The token is wrong, was used already, or has expired')
  const password = typed ?? (await readNewPassword(run, 'New password:'))
  await client.call(api.resetPassword, { body: { token, password } }, { idempotencyKey: run.idempotencyKey() })
  run.notice('the password is set and all sessions are ended; sign in with panel login')
}

export const verifyEmail: Action = async (run) => {
  const { client } = await anonymous(run)
  const token = await readSecret({ name: 'token', question: 'Token from the mail:' }, run)
  await client.call(api.verifyEmail, { query: { token: token.trim() } })
  run.notice('your e-mail address is confirmed')
}

/** With both from stdin the token is the first line and the password the second. */
async function tokenAndPassword(run: Run): Promise<[string, string | undefined]> {
  const { args, terminal } = run
  if (!(args.flag('token-stdin') && args.flag('password-stdin'))) {
    return [(await readSecret({ name: 'token', question: 'Token from the mail:' }, run)).trim(), undefined]
  }
  const [token = '', password = ''] = (await readAll(terminal.stdin)).split(/\r?\n/)
  if (token.trim() === '' || password === '') throw usage('stdin must hold the token and, below it, the password')
  return [token.trim(), password]
}

async function anonymous(run: Run) {
  const { url } = await run.target()
  await agreeOnListener(run, url)
  return { url, client: (await run.connectTo(url, undefined)).client }
}
