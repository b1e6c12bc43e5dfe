import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'

/**
 * Takes the kernel's `flock` on a file, which is made when it is missing. The lock belongs to the open file: it ends with
 * the process, however that ends, holds in every pid namespace, and is not inherited by programs that the process starts.
 * Resolves with the open file that stands for the lock (closing it lets go), or `undefined` when another process has it for
 * `waitSeconds`.
 *
 * Node has no `flock` call: the program `flock` locks the open file that it inherits, and the lock outlives the program.
 */
export async function takeLock(path: string, waitSeconds: number): Promise<FileHandle | undefined> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT, 0o600)
  let taken = false
  try {
    taken = await flock(file.fd, waitSeconds > 0 ? ['-x', '-w', String(waitSeconds)] : ['-x', '-n'])
  } finally {
    if (!taken) await file.close()
  }
  return taken ? file : undefined
}

/** Whether somebody has the lock of this open file. */
export async function isLocked(file: FileHandle): Promise<boolean> {
  const free = await flock(file.fd, ['-s', '-n'])
  return !free
}

function flock(fd: number, args: readonly string[]): Promise<boolean> {
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
