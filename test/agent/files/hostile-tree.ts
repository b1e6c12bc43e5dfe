import { execFileSync } from 'node:child_process'
import { existsSync, lstatSync, readdirSync, readlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'

/** Where trees of many entries are made: in memory, since a disk that others use takes a millisecond for each. */
export const ROOMY = existsSync('/dev/shm') ? '/dev/shm' : tmpdir()

/** Makes one folder in another, `depth` times, as the user whose the first is, and puts a file of `fileMb` MiB into the lowest. */
export function nestFolders(folder: string, depth: number, fileMb = 0): void {
  const program = `
import os, sys
os.chdir(sys.argv[1])
owner = os.stat('.')
if os.geteuid() == 0:
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
for i in range(int(sys.argv[2])):
    os.mkdir('d')
    os.chdir('d')
with open('data', 'wb') as f:
    f.write(b'x' * (int(sys.argv[3]) << 20))
`
  execFileSync('python3', ['-c', program, folder, String(depth), String(fileMb)])
}

/** Puts a file of `mb` MiB under a name of bytes that are no UTF-8, with a line break in it. */
export function hideFile(folder: string, mb: number): void {
  const program = `
import os, sys
with open(os.fsencode(sys.argv[1]) + b'/\\xff\\xfe\\nworld', 'wb') as f:
    f.write(b'x' * (int(sys.argv[2]) << 20))
`
  execFileSync('python3', ['-c', program, folder, String(mb)])
}

/** Allocated bytes below a folder by the system's own count. */
export function bytesByDu(folder: string): number {
  const all = Number.parseInt(execFileSync('du', ['-sB1', folder], { encoding: 'utf8' }), 10)
  return all - lstatSync(folder).blocks * 512
}

/** What this process holds open at and below a folder. */
export function openBelow(folder: string): string[] {
  const all = readdirSync('/proc/self/fd').map((fd) => readlinkOrGone(`/proc/self/fd/${fd}`))
  return all.filter((path) => path === folder || path.startsWith(`${folder}/`))
}

/** The descriptor of the list itself has gone when it is looked at. */
function readlinkOrGone(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}
