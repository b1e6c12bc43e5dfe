import { AgentFailure } from '../failure.ts'
import { codeOf } from '../files/folder-handle.ts'
import { errorText } from '../logger.ts'

/** What a failed call on a folder of backups means to whoever asked; `done` is what it could not be. */
export function folderFailure(error: unknown, done: 'read' | 'written' | 'removed'): unknown {
  if (error instanceof AgentFailure) return error
  const code = codeOf(error)
  if (code === undefined) return error
  if (code === 'ENOSPC' || code === 'EDQUOT') {
    const message = 'The disk of the node that the backups lie on is full: free some of it, or delete backups'
    return new AgentFailure('NO_SPACE', message, { cause: error })
  }
  // Where it lies on the node is for whoever runs that.
  const [why] = errorText(error).split(', ')
  const message = `The folder of the backups on this node cannot be ${done} (${why}): whoever runs the node must look after it, or another store be used`
  return new AgentFailure('STORE_FAILED', message, { cause: error })
}
