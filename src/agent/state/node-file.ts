import { readFile, stat } from 'node:fs/promises'
import { z } from 'zod'
import { AgentFailure } from '../failure.ts'
import { writeFileAtomic } from './atomic-file.ts'

/** What an enrolment gives a machine: its daemon, its name there, and its key. */
export const NodeCredentials = z.object({
  url: z.string(),
  nodeId: z.string(),
  nodeName: z.string(),
  nodeKey: z.string(),
  /** Certificates of the daemon's authority, as PEM. */
  ca: z.string().optional(),
  /** The user whose program served the daemon's address, where that is on this machine. */
  listenerUid: z.int().optional(),
  /** Plain http to another machine was insisted on. */
  allowInsecure: z.boolean().optional(),
})
export type NodeCredentials = z.infer<typeof NodeCredentials>

/** Reads node.json; `undefined` before the enrolment. A file that others may read is refused: it holds the node's key. */
export async function readNodeFile(path: string): Promise<NodeCredentials | undefined> {
  let text: string
  try {
    const { mode } = await stat(path)
    if ((mode & 0o077) !== 0) {
      throw new AgentFailure('BAD_REQUEST', `${path} may be read by others; run: chmod 600 ${path}`)
    }
    text = await readFile(path, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    value = undefined // reported below, without the text, which may hold the key
  }
  const parsed = NodeCredentials.safeParse(value)
  if (parsed.success) return parsed.data
  throw new AgentFailure('BAD_REQUEST', `${path} is damaged; enrol the node again`)
}

export async function writeNodeFile(path: string, credentials: NodeCredentials): Promise<void> {
  await writeFileAtomic(path, `${JSON.stringify(credentials, undefined, 2)}\n`)
}
