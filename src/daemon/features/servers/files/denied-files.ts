import ignore from 'ignore'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { grants } from '../../../../shared/kernel/permissions.ts'
import type { Holder } from '../../../access/permit.ts'
import type { ServerRow } from '../servers/rows.ts'
import { definitionOf } from '../servers/view.ts'

/**
 * Refuses a file that the template of a server keeps from its members, the owner too: only who has admin.write gets it. Patterns are those
 * of .gitignore, and the case of letters does not count: on a disk that knows no case another spelling is the same file.
 */
export function refuseDenied(
  row: Pick<ServerRow, 'templateDefinition'>,
  path: string,
  caller: Pick<Holder, 'permissions'>,
): void {
  const { fileDenylist = [] } = definitionOf(row) as Partial<ReturnType<typeof definitionOf>> // older templates do not have it
  if (fileDenylist.length === 0 || grants(caller.permissions, 'admin.write')) return
  const inside = path
    .split('/')
    .filter((part) => part !== '' && part !== '.')
    .join('/')
  // Paths that lead out of the folder are refused by the node.
  if (!ignore.isPathValid(inside)) return
  if (
    !ignore({ ignorecase: true })
      .add([...fileDenylist])
      .ignores(inside)
  )
    return
  throw new PanelError(
    'PERMISSION_DENIED',
    `The template of this server keeps ${inside.slice(0, 200)} from its members`,
    {
      meta: { missing: ['admin.write'] },
    },
  )
}
