import * as api from '../../../shared/api/two-factor.ts'
import type { Action } from '../../kit/command.ts'
import { column, type View } from '../../kit/output/view.ts'
import { readSecret } from '../../kit/prompt.ts'
import { call } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { readCode } from '../session/one-time-code.ts'

interface Status {
  readonly twoFactorEnabled: boolean
  readonly backupCodesLeft: number
}

const STATUS: View<Status> = {
  id: (row) => String(row.twoFactorEnabled),
  name: (row) => String(row.twoFactorEnabled),
  columns: [column('ENABLED', (row) => row.twoFactorEnabled), column('RECOVERY CODES', (row) => row.backupCodesLeft)],
}

export const twoFactorStatus: Action = async (run) => {
  await run.out.item(await call(run, api.getTwoFactor, { params: {} }), STATUS)
}

/** Shows what the authenticator needs, and on a terminal asks for the first code at once. */
export const enableTwoFactor: Action = async (run) => {
  const { totpURI, backupCodes } = await call(run, api.enableTwoFactor, { params: {}, body: await password(run) })
  if (run.out.machine) return run.out.value({ totpURI, backupCodes })
  const qrcode = await import('qrcode')
  const isTerminal = run.terminal.stdout.isTTY === true
  await run.out.text(await qrcode.toString(totpURI, isTerminal ? { type: 'terminal', small: true } : { type: 'utf8' }))
  await run.out.text(`\n${totpURI}\n\n${backupCodes.join('\n')}\n`)
  run.notice('these recovery codes are shown this once; each works once in the place of a code')
  if (!run.prompt.possible) return run.notice('confirm it with: panel profile two-factor confirm --totp-stdin')
  await confirm(run)
}

export const confirmTwoFactor: Action = async (run) => {
  await confirm(run)
}

export const disableTwoFactor: Action = async (run) => {
  await run.prompt.confirm('Sign in by password alone from now on?')
  await call(run, api.disableTwoFactor, { params: {}, body: await password(run) })
  run.notice('two-factor sign-in is off')
}

export const renewCodes: Action = async (run) => {
  const { backupCodes } = await call(run, api.renewRecoveryCodes, { params: {}, body: await password(run) })
  if (run.out.machine) return run.out.value({ backupCodes })
  await run.out.text(`${backupCodes.join('\n')}\n`)
  run.notice('these recovery codes are shown this once; the old ones work no more')
}

async function confirm(run: Run): Promise<void> {
  await call(run, api.verifyTotp, { params: {}, body: { code: await readCode(run) } })
  run.notice('two-factor sign-in is on')
}

async function password(run: Run): Promise<{ password: string }> {
  return { password: await readSecret({ name: 'password', question: 'Password:' }, run) }
}
