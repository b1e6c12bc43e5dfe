import { execFile } from 'node:child_process'

const TOOL_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** Whether processes can be started as another user here; tried out, because containers often forbid it even to root. */
export async function canSwitchUser(uid: number): Promise<boolean> {
  if (process.getuid?.() !== 0) return false
  const args = [`--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--inh-caps=-all', '--bounding-set=-all', 'true']
  return new Promise((resolve) => {
    execFile('setpriv', args, { env: { PATH: TOOL_PATH }, timeout: 10_000 }, (error) => resolve(error === null))
  })
}
