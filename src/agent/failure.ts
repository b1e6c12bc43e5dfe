import type { AgentError, AgentErrorCode } from '../shared/protocol/agent-error.ts'

/** An expected failure on a node; its code and sentence reach the daemon as they are. */
export class AgentFailure extends Error {
  override readonly name = 'AgentFailure'
  readonly code: AgentErrorCode
  /** The field of the request that is refused, where it has several of a kind. */
  readonly field: string | undefined

  constructor(code: AgentErrorCode, message: string, options?: ErrorOptions & { readonly field?: string | undefined }) {
    super(message, options)
    this.code = code
    this.field = options?.field
  }

  toFrame(): AgentError {
    const field = this.field === undefined ? {} : { field: this.field }
    return { code: this.code, message: this.message.slice(0, 2000), ...field }
  }
}

/** The node cannot do it for now: the server has no part in that, and it is tried again. */
export class NodeUnready extends AgentFailure {}

/** The node lacks open files or memory. */
export class NodeShortage extends NodeUnready {
  constructor(errno: string) {
    super(
      'INTERNAL',
      `The node has too few resources at the moment (${errno}); see the limits of its agent, such as \`ulimit -n\``,
    )
  }
}

/** A failure of work on a node as people are to read it: one that is not foreseen is `otherwise`, unless a full disk is behind it. */
export function asFailure(error: unknown, otherwise: string): AgentFailure {
  if (error instanceof AgentFailure) return error
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code !== 'ENOSPC' && code !== 'EDQUOT') return new AgentFailure('INTERNAL', otherwise, { cause: error })
  const message = 'The disk of the server, or of its node, is full: make room there, then try again'
  return new AgentFailure('NO_SPACE', message, { cause: error })
}
