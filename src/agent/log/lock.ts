import { spawn } from 'node:child_process'
import { type FileHandle, open } from 'node:fs/promises'

/**
 * Takes the lock of a server's state: whoever has it may write the console log and start a holder's work. It is the kernel's
 * `flock` on a file, so it ends with the process that holds it, however that ends. Resolves with the open file that stands
 * for the lock (closing it lets go), or `undefined` when another has it for `waitSeconds`.
 *
 * Node has no `flock` call: the program `flock` locks the open file that it inherits, and the lock outlives the program.
 */
export async function takeLock(path: string, waitSeconds: number): Promise<FileHandle | undefined> {
  const file = await open(path, 'a', 0o600)
  try {
    const code = await lockOpenFile(file.fd, waitSeconds)
    if (code === 0) return file
    if (code !== 1) throw new Error(`flock ended with ${code}`)
  } catch (error) {
    await file.close()
    throw error
  }
  await file.close()
  return undefined
}

function lockOpenFile(fd: number, waitSeconds: number): Promise<number | null> {
  const args = waitSeconds > 0 ? ['-x', '-w', String(waitSeconds), '3'] : ['-x', '-n', '3']
  const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }
  return new Promise((resolve, reject) => {
    const child = spawn('flock', args, { stdio: ['ignore', 'ignore', 'ignore', fd], env })
    child.once('error', reject)
    child.once('exit', resolve)
  })
}
