import { spawn } from 'node:child_process'

/**
 * Asks for the kernel's `flock` on an open file, as the arguments of the program `flock` say; resolves with whether it was had.
 *
 * Node has no `flock` call: the program locks the open file that it inherits, and the lock outlives the program.
 */
export function flock(fd: number, args: readonly string[]): Promise<boolean> {
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
  return new Promise((resolve, reject) => {
    const child = spawn('flock', [...args, '3'], { stdio: ['ignore', 'ignore', 'ignore', fd], env })
    child.once('error', (error) => {
      const isMissing = 'code' in error && error.code === 'ENOENT'
      const missing = 'the program flock is missing: install the package util-linux'
      reject(isMissing ? new Error(missing, { cause: error }) : error)
    })
    child.once('exit', (code, signal) => {
      if (code === 0 || code === 1) resolve(code === 0)
      else reject(new Error(`flock ended with ${code ?? signal}: the file system of the folder may not know locks`))
    })
  })
}
