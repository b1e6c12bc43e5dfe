import * as api from '../../../../shared/api/ssh-keys.ts'
import { operate } from '../../../http/operate.ts'
import { type Route, route } from '../../../http/route.ts'
import * as operations from './operations.ts'

/** The routes of SSH keys. */
export function sshKeyRoutes(deps: operations.SshKeyDeps): Route[] {
  return [
    route(api.listSshKeys, (input, context) => operations.listSshKeys(deps, input, context)),
    operate(operations.addSshKey, deps),
    operate(operations.deleteSshKey, deps),
  ]
}
