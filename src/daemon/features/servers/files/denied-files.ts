import ignore from 'ignore'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Holder } from '../../../access/permit.ts'
import type { ServerRow } from '../servers/rows.ts'
import { definitionOf } from '../servers/view.ts'

type OfTemplate = Pick<ServerRow, 'templateDefinition'>
type Asking = Pick<Holder, 'permissions'>

/**
 * The patterns of files that the template of a server keeps from whoever asks: from all its members, the owner too, and from nobody who
 * has admin.write. They are those of .gitignore. What is done with trees is held to them by the node.
 */
export function deniedTo(row: OfTemplate, caller: Asking): string[] {
  const { fileDenylist } = definitionOf(row)
  return grants(caller.permissions, 'admin.write') ? [] : [...fileDenylist]
}

/**
 * Refuses a file or folder that the template keeps from whoever asks. The case of letters does not count: on a disk that knows no case
 * another spelling is the same file.
 */
export function refuseDenied(row: OfTemplate, path: string, caller: Asking): void {
  const denied = deniedTo(row, caller)
  if (denied.length === 0) return
  const inside = path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
  // Paths that lead out of the folder are refused by the node.
  if (!ignore.isPathValid(inside)) return
  const rules = ignore({ ignorecase: true }).add(denied)
  if (!rules.ignores(inside) && !rules.ignores(`${inside}/`)) return
  throw new PanelError(
    'PERMISSION_DENIED',
    `The template of this server keeps ${inside.slice(0, 200)} from its members`,
    { meta: { missing: ['admin.write'] } },
  )
}
