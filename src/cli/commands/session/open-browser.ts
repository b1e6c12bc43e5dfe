import { spawn } from 'node:child_process'
import type { Environment } from '../../kit/environment.ts'

/** Opens an address in the person's browser; whether a program for it could be started. It outlives this one. */
export function openBrowser(env: Environment, url: string): Promise<boolean> {
  const program = programFor(env, url)
  if (program === undefined) return Promise.resolve(false)
  const [command, ...args] = program
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'ignore', detached: true })
    child.once('error', () => resolve(false)) // there is no such program; the address is printed in any case
    child.once('spawn', () => {
      child.unref()
      resolve(true)
    })
  })
}

/** BROWSER wins; on a machine without a desktop nothing is tried. */
function programFor({ browser, hasDisplay, ci }: Environment, url: string): [string, ...string[]] | undefined {
  const [command, ...words] = browser?.split(':')[0]?.split(' ').filter(Boolean) ?? []
  if (command !== undefined) {
    const args = words.map((word) => word.replaceAll('%s', url))
    return words.some((word) => word.includes('%s')) ? [command, ...args] : [command, ...args, url]
  }
  if (ci) return undefined
  if (process.platform === 'darwin') return ['open', url]
  if (process.platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler', url]
  return hasDisplay ? ['xdg-open', url] : undefined
}
