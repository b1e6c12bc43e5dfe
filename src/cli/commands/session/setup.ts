import * as api from '../../../shared/api/auth.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { askEmail, askUsername, readNewPassword } from '../../kit/new-account.ts'
import { column, type View } from '../../kit/output/view.ts'
import { readText } from '../../kit/read-file.ts'
import type { Run } from '../../kit/run.ts'
import { agreeOnListener } from './listener-consent.ts'
import { checkName, keep, keyForSession } from './login.ts'

const STATUS: View<{ setupRequired: boolean }> = {
  id: (row) => String(row.setupRequired),
  name: (row) => String(row.setupRequired),
  columns: [column('SETUP REQUIRED', (row) => row.setupRequired)],
}

/** `panel setup status`, and the set-up itself. */
export const setup: Action = async (run) => {
  const { url } = await run.target()
  await agreeOnListener(run, url)
  const { client } = await run.connectTo(url, undefined)
  if (run.args.word('what') === 'status') return run.out.item(await client.call(api.getSetupStatus), STATUS)
  const { args } = run
  checkName(run)
  const email = await askEmail(run, 'admin-email', 'E-mail address of the administrator:')
  const question = 'User name of the administrator:'
  const username = await askUsername(run, 'admin-username', { question, initial: 'admin' })
  const password = await readNewPassword(run, 'Password of the administrator:')
  const [panelName, locale] = [args.text('panel-name'), args.text('locale')]
  const named = { ...(panelName === undefined ? {} : { panelName }), ...(locale === undefined ? {} : { locale }) }
  const made = await withSetupToken(run, (setupToken, part) => {
    const body = { email, username, password, ...(setupToken === undefined ? {} : { setupToken }), ...named }
    return client.call(api.completeSetup, { body }, { idempotencyKey: run.idempotencyKey(part) })
  })
  const name = await keep(run, url, await keyForSession(await run.connectTo(url, made.token), made.token))
  if (run.out.machine) return run.out.value({ context: name, url, username: made.username, panelName: made.panelName })
  run.notice(`${made.panelName} is set up; you are signed in as ${made.username} (context ${name})`)
}

/** Works with the token; one that was typed wrong is asked for again, and nothing else is. */
async function withSetupToken<T>(run: Run, work: (token: string | undefined, part?: string) => Promise<T>): Promise<T> {
  const given = await givenToken(run)
  if (given !== undefined || !run.prompt.possible) return work(given)
  for (let attempt = 1; ; attempt++) {
    const token = await run.prompt.secret('Setup token (the daemon printed it):', '--setup-token-file')
    try {
      return await work(token.trim(), String(attempt))
    } catch (error) {
      if (!(error instanceof PanelError && error.code === 'SETUP_TOKEN_INVALID')) throw error
      run.terminal.say(error.message)
    }
  }
}

async function givenToken(run: Run): Promise<string | undefined> {
  const file = run.args.text('setup-token-file')
  const text = file === undefined ? run.env.setupToken : await readText(file)
  const token = text?.trim()
  if (token === '') throw usage('the setup token is empty')
  return token
}
