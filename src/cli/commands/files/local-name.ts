import { pathBytes } from '../../../shared/kernel/path-text.ts'
import { isUnsafe } from '../../../shared/kernel/terminal-text.ts'
import { CliFailure } from '../../kit/failure.ts'

const NO_NAME = 'the panel has answered what is no name of a file'

/** The bytes of a name; what a panel says is no name leads nowhere else. */
export function localName(name: string): Buffer {
  const bytes = pathBytes(name)
  if (bytes === undefined || name === '' || name === '.' || name === '..' || /[/\0]/.test(name)) {
    throw new CliFailure('OPERATION_FAILED', NO_NAME)
  }
  return Buffer.from(bytes)
}

/** A name by which a panel has a file written here that nobody has named: one that a terminal shows as it is. */
export function suggestedName(name: string): string {
  if (isUnsafe(name) || name.includes('/')) {
    throw new CliFailure('OPERATION_FAILED', NO_NAME, { hint: '--out <file>' })
  }
  return name
}
