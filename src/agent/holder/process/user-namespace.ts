import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import type { Readable, Writable } from 'node:stream'
import { TOOL_PATH } from './launcher.ts'

/**
 * Makes a user namespace in which every user and group is the same as outside, and gives a descriptor of it, which the
 * caller closes. A program gets its own limit of further user namespaces there, which it cannot raise: with none allowed it
 * has no way to capabilities over a part of the kernel.
 */
export async function openUserNamespace(): Promise<number> {
  const options = { env: { PATH: TOOL_PATH }, cwd: '/' }
  const inhabitant = spawn('unshare', ['--user', 'cat'], { ...options, stdio: ['pipe', 'pipe', 'ignore'] })
  inhabitant.stdin.on('error', () => undefined) // it has ended, which is seen below
  try {
    await answers(inhabitant)
    for (const map of ['uid_map', 'gid_map']) writeFileSync(`/proc/${inhabitant.pid}/${map}`, identity(map))
    return openSync(`/proc/${inhabitant.pid}/ns/user`, 'r')
  } finally {
    inhabitant.stdin.end()
    inhabitant.kill()
  }
}

/** `cat` repeats what it gets as soon as it runs, and by then it is in its namespace. */
function answers(inhabitant: ChildProcessByStdio<Writable, Readable, null>): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (): void => reject(new Error('A user namespace cannot be made'))
    inhabitant.once('error', fail)
    inhabitant.once('exit', fail)
    inhabitant.stdout.once('data', () => resolve())
    inhabitant.stdin.write('.')
  })
}

/** The map of this process's own namespace, each number onto itself. */
function identity(map: string): string {
  const ranges = readFileSync(`/proc/self/${map}`, 'latin1').trim().split('\n')
  return ranges
    .map((range) => {
      const [inside, , count] = range.trim().split(/\s+/)
      return `${inside} ${inside} ${count}\n`
    })
    .join('')
}
