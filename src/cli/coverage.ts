import { walk } from './kit/command.ts'
import { tree } from './whole-tree.ts'

/** Which command stands for each endpoint, by the declarations of the commands. Two for one endpoint is a defect. */
export function coverage(): ReadonlyMap<string, readonly string[]> {
  const map = new Map<string, string[]>()
  for (const { path, command } of walk(tree)) {
    for (const id of command.endpoints ?? []) map.set(id, [...(map.get(id) ?? []), path.join(' ')])
  }
  return map
}

/** Endpoints without a command of their own, and why. */
export const API_ONLY: Readonly<Record<string, string>> = {
  'bulk.deliver': 'what agents deliver to their daemon',
  'bulk.fetch': 'what agents fetch from their daemon',
  'stores.ask': 'what agents ask of object stores',
  'sftp.open': 'what agents ask when somebody comes in over SSH',
  'sftp.check': 'what agents ask of the rights of SSH sessions',
  'sftp.report': 'what agents report of SSH sessions',
  'sftp.command': 'what somebody types at the console over SSH',
  'auth.sign_out': 'the same as auth.logout, which `panel logout` calls',
  'files.download': 'the same as files.read, which `panel files get` calls',
  'files.write_text': 'files.write for texts in JSON, which `panel files put` does with bytes',
  'files.upload': 'files.write for forms of browsers',
  'files.delete': 'files.delete_many for one, which `panel files rm` calls',
  'roles.list_admin': 'the same rows as roles.list, which `panel roles list` calls',
  'passkeys.begin': 'the first half of making a passkey, which only a browser with an authenticator can end',
  'passkeys.verify': 'the second half of making a passkey: a browser has the authenticator',
  'passkeys.sign_in_options': 'what a browser asks its authenticator to sign',
  'passkeys.sign_in_options_read': 'the same as passkeys.sign_in_options',
  'passkeys.sign_in': 'the answer of an authenticator, which a browser has',
  'sso.start': 'where `panel login --web` sends a browser',
  'sso.callback': 'where an identity provider sends a browser back to',
  'users.remove': 'the same as users.delete, which `panel users delete` calls',
  'servers.bulk_suspend': 'servers.bulk_actions with suspend, for at most 100, with its answer in another shape',
  'servers.bulk_unsuspend': 'servers.bulk_actions with unsuspend, as above',
  'servers.bulk_delete': 'servers.bulk_actions with delete, as above',
  'servers.bulk_remove': 'the same as servers.bulk_delete',
  'servers.eula_by_body': 'the same as servers.eula, which `panel servers eula accept` calls',
  'servers.patch': 'the same as servers.update, which `panel servers edit` calls',
  'servers.start': 'the same as servers.power with start, which `panel servers start` calls',
  'servers.stop': 'the same as servers.power with stop, which `panel servers stop` calls',
  'servers.restart': 'the same as servers.power with restart, which `panel servers restart` calls',
  'system_errors.report': 'what clients with a screen send when they fail; a person has the list',
  'plugins.frontend_manifest': 'what clients with a screen load; `panel plugins view` shows more',
  'servers.kill': 'the same as servers.power with kill, which `panel servers kill` calls',
  'settings.theme_public': 'part of settings.public, which `panel settings public` calls',
}
