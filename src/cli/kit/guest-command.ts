import { isLoopbackHost } from '../../shared/kernel/setting-values.ts'
import type { Run } from './run.ts'

/** Says on stderr who gets the token on stdout, and what this guest runs with it. */
export async function describeGuest(run: Run, email: string, commands: readonly string[]): Promise<void> {
  const { url } = await run.target()
  run.notice(`no mail was sent: give the token to ${email} yourself; it is shown this once. With it the guest runs`)
  for (const words of commands) run.notice(`  panel ${words} --url ${url} --token-stdin`)
  if (isLoopbackHost(new URL(url).hostname.replace(/^\[|\]$/g, '')))
    run.notice(`${url} is reached from this machine only: others need the address that http.publicUrl names`)
}
