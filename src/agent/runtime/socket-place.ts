import { createHash } from 'node:crypto'
import { chmod, lstat, mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MAX_SOCKET_PATH } from '../holder/control-server.ts'

/**
 * The path of a server's control socket, in a folder that only this user can enter: `<data>/run`, or one in the system's
 * folder for temporary files when the path would be too long for a socket.
 */
export async function socketPath(dataDir: string, serverId: string): Promise<string> {
  const name = `${hash(serverId, 16)}.sock`
  const near = join(dataDir, 'run', name)
  if (Buffer.byteLength(near) <= MAX_SOCKET_PATH) {
    await ownFolder(join(dataDir, 'run'))
    return near
  }
  const folder = join(tmpdir(), `panel-${process.getuid?.() ?? 0}-${hash(dataDir, 12)}`)
  await ownFolder(folder)
  return join(folder, name)
}

async function ownFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const facts = await lstat(folder)
  if (!facts.isDirectory() || facts.uid !== process.getuid?.()) {
    throw new Error(`${folder} belongs to somebody else`)
  }
  if ((facts.mode & 0o777) !== 0o700) await chmod(folder, 0o700)
}

function hash(text: string, length: number): string {
  return createHash('sha256').update(text).digest('hex').slice(0, length)
}
