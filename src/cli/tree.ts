import { access, invites } from './commands/access/commands.ts'
import { profile } from './commands/account/commands.ts'
import { alertRules } from './commands/alert-rules/commands.ts'
import { alerts } from './commands/alerts/commands.ts'
import { allocations } from './commands/allocations/commands.ts'
import { apiKeys, permissions } from './commands/api-keys/commands.ts'
import { audit } from './commands/audit/commands.ts'
import { backupPolicies } from './commands/backup-policies/commands.ts'
import { backupStores } from './commands/backup-stores/commands.ts'
import { backups } from './commands/backups/commands.ts'
import { console } from './commands/console/commands.ts'
import { databases } from './commands/databases/commands.ts'
import { dbHosts } from './commands/db-hosts/commands.ts'
import { events } from './commands/events/commands.ts'
import { files } from './commands/files/commands.ts'
import { agent, daemon, down, up } from './commands/host/commands.ts'
import { ipPools } from './commands/ip-pools/commands.ts'
import { jobs } from './commands/jobs/commands.ts'
import { locations } from './commands/locations/commands.ts'
import { lockouts } from './commands/lockouts/commands.ts'
import { migration } from './commands/migration/commands.ts'
import { nests } from './commands/nests/commands.ts'
import { nodes } from './commands/nodes/commands.ts'
import { dashboard, db, health, stats } from './commands/overview/commands.ts'
import { plugins } from './commands/plugins/commands.ts'
import { providers } from './commands/providers/commands.ts'
import { roles } from './commands/roles/commands.ts'
import { schedules } from './commands/schedules/commands.ts'
import { selfBackup } from './commands/self-backup/commands.ts'
import { servers } from './commands/servers/commands.ts'
import { auth, context, login, logout, setup, whoami } from './commands/session/commands.ts'
import { locale, settings } from './commands/settings/commands.ts'
import { sftp } from './commands/sftp/commands.ts'
import { systemErrors } from './commands/system-errors/commands.ts'
import { templates } from './commands/templates/commands.ts'
import { api, commands, complete, completion, openapi, version } from './commands/tooling/commands.ts'
import { update } from './commands/update/commands.ts'
import { users } from './commands/users/commands.ts'
import { webhooks } from './commands/webhooks/commands.ts'
import type { Command, Noun } from './kit/command.ts'

/** All commands, in the order of the help. Data only: loading this loads no action. */
export const tree: readonly (Command | Noun)[] = [
  servers,
  access,
  invites,
  console,
  files,
  backups,
  sftp,
  databases,
  schedules,
  events,
  jobs,
  alerts,
  alertRules,
  login,
  logout,
  whoami,
  auth,
  context,
  profile,
  dashboard,
  locale,
  nodes,
  locations,
  nests,
  templates,
  allocations,
  dbHosts,
  backupStores,
  selfBackup,
  backupPolicies,
  ipPools,
  migration,
  users,
  roles,
  permissions,
  apiKeys,
  lockouts,
  audit,
  settings,
  providers,
  plugins,
  systemErrors,
  stats,
  health,
  db,
  update,
  webhooks,
  up,
  down,
  daemon,
  agent,
  setup,
  api,
  openapi,
  commands,
  completion,
  version,
  complete,
]
