/** Why a plugin cannot be loaded or was ended; the message is a sentence part for people: `it does not answer`. */
export class LoadProblem extends Error {
  override readonly name = 'LoadProblem'
}

/** How a call of a plugin's handler came to nothing. */
export type CallEnd = 'threw' | 'timeout' | 'gone' | 'busy'

/** A call of a plugin's handler has no answer. */
export class CallFailure extends Error {
  override readonly name = 'CallFailure'
  readonly end: CallEnd
  /** The code of the API with which the handler refused, where it did. */
  readonly code: string | undefined

  constructor(end: CallEnd, message: string, extra: { code?: string | undefined; stack?: string | undefined } = {}) {
    super(message)
    this.end = end
    this.code = extra.code
    if (extra.stack !== undefined && extra.stack !== '') this.stack = extra.stack
  }
}

/** The message of whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
