import * as api from '../../shared/api/auth.ts'
import type { Action } from '../command.ts'
import { usage } from '../failure.ts'
import { column, type View } from '../output/view.ts'
import { readSecret } from '../prompt.ts'
import { readText } from '../read-file.ts'
import type { Run } from '../run.ts'
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
  const { args, prompt } = run
  checkName(run)
  const setupToken = await setupTokenOf(run)
  const email = args.text('admin-email') ?? (await prompt.ask('E-mail address of the administrator:', '--admin-email'))
  const username =
    args.text('admin-username') ?? (await prompt.ask('User name of the administrator:', '--admin-username', 'admin'))
  const password = await readSecret({ name: 'password', question: 'Password of the administrator:' }, run)
  const [panelName, locale] = [args.text('panel-name'), args.text('locale')]
  const made = await client.call(
    api.completeSetup,
    {
      body: {
        email,
        username,
        password,
        ...(setupToken === undefined ? {} : { setupToken }),
        ...(panelName === undefined ? {} : { panelName }),
        ...(locale === undefined ? {} : { locale }),
      },
    },
    { idempotencyKey: run.idempotencyKey() },
  )
  const name = await keep(run, url, await keyForSession(await run.connectTo(url, made.token), made.token))
  if (run.out.machine) return run.out.value({ context: name, url, username: made.username, panelName: made.panelName })
  run.notice(`${made.panelName} is set up; you are signed in as ${made.username} (context ${name})`)
}

async function setupTokenOf(run: Run): Promise<string | undefined> {
  const file = run.args.text('setup-token-file')
  const text = file === undefined ? run.env.setupToken : await readText(file)
  const token = text?.trim()
  if (token === '') throw usage('the setup token is empty')
  if (token !== undefined || !run.prompt.possible) return token
  return run.prompt.secret('Setup token (the daemon printed it):', '--setup-token-file')
}
