import { hash } from 'node:crypto'
import { chmod, mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AgentFailure } from '../failure.ts'
import { errorText } from '../logger.ts'
import { writeFileAtomic } from '../state/atomic-file.ts'
import { newKey, publicHalf } from './openssh-key.ts'

/** The key by which clients know this node again. */
export interface HostKey {
  /** In the form of OpenSSH. */
  readonly privateKey: string
  /** `SHA256:…`, as clients show it. */
  readonly fingerprint: string
}

/** Reads the key of the node, which only the agent may read, and makes it at the first time. Throws INTERNAL for one that is damaged. */
export async function hostKeyOf(dataDir: string): Promise<HostKey> {
  const folder = join(dataDir, 'sftp')
  const file = join(folder, 'host_key')
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const known = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  const privateKey = known ?? newKey('panel')
  if (known === undefined) await writeFileAtomic(file, privateKey)
  await chmod(file, 0o600)
  const digest = hash('sha256', publicHalfOf(privateKey, file), 'base64').replaceAll('=', '')
  return { privateKey, fingerprint: `SHA256:${digest}` }
}

function publicHalfOf(privateKey: string, file: string): Buffer {
  try {
    return publicHalf(privateKey)
  } catch (error) {
    const problem = `The host key ${file} cannot be read (${errorText(error)}); move it away and a new one is made`
    throw new AgentFailure('INTERNAL', problem, { cause: error })
  }
}
