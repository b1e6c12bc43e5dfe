import { PanelError } from '../../../shared/kernel/errors.ts'

/** Whether a refusal says that the server is no more. Who held it only as its owner gets 403 once it is gone. */
export function isGone(error: unknown): boolean {
  return error instanceof PanelError && (error.code.endsWith('NOT_FOUND') || error.code === 'PERMISSION_DENIED')
}
