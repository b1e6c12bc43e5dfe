import { hash } from 'node:crypto'
import { chmod, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { utils as SshUtils } from 'ssh2'
import { AgentFailure } from '../failure.ts'
import { writeFileAtomic } from '../state/atomic-file.ts'

/** The key by which clients know this node again. */
export interface HostKey {
  /** In the form of OpenSSH. */
  readonly privateKey: string
  /** `SHA256:…`, as clients show it. */
  readonly fingerprint: string
}

/** Reads the key of the node, which only the agent may read, and makes it at the first time. Throws INTERNAL for one that is damaged. */
export async function hostKeyOf(dataDir: string, utils: typeof SshUtils): Promise<HostKey> {
  const folder = join(dataDir, 'sftp')
  const file = join(folder, 'host_key')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const known = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  const privateKey = known ?? utils.generateKeyPairSync('ed25519', { comment: 'panel' }).private
  if (known === undefined) await writeFileAtomic(file, privateKey)
  await chmod(file, 0o600)
  const parsed = utils.parseKey(privateKey)
  if (parsed instanceof Error || parsed.type !== 'ssh-ed25519') {
    throw new AgentFailure('INTERNAL', `The host key ${file} cannot be read; move it away and a new one is made`)
  }
  const digest = hash('sha256', parsed.getPublicSSH(), 'base64').replaceAll('=', '')
  return { privateKey, fingerprint: `SHA256:${digest}` }
}
