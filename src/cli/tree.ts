import { access, invites } from './access/commands.ts'
import { profile } from './account/commands.ts'
import { alertRules } from './alert-rules/commands.ts'
import { alerts } from './alerts/commands.ts'
import { allocations } from './allocations/commands.ts'
import { apiKeys, permissions } from './api-keys/commands.ts'
import { audit } from './audit/commands.ts'
import type { Command, Noun } from './command.ts'
import { console } from './console/commands.ts'
import { databases } from './databases/commands.ts'
import { dbHosts } from './db-hosts/commands.ts'
import { events } from './events/commands.ts'
import { agent, daemon, down, up } from './host/commands.ts'
import { ipPools } from './ip-pools/commands.ts'
import { locations } from './locations/commands.ts'
import { lockouts } from './lockouts/commands.ts'
import { nests } from './nests/commands.ts'
import { nodes } from './nodes/commands.ts'
import { dashboard, db, health, stats } from './overview/commands.ts'
import { plugins } from './plugins/commands.ts'
import { providers } from './providers/commands.ts'
import { roles } from './roles/commands.ts'
import { servers } from './servers/commands.ts'
import { auth, context, login, logout, setup, whoami } from './session/commands.ts'
import { locale, settings } from './settings/commands.ts'
import { systemErrors } from './system-errors/commands.ts'
import { templates } from './templates/commands.ts'
import { api, commands, complete, completion, openapi, version } from './tooling/commands.ts'
import { update } from './update/commands.ts'
import { users } from './users/commands.ts'
import { webhooks } from './webhooks/commands.ts'

/** All commands, in the order of the help. Data only: loading this loads no action. */
export const tree: readonly (Command | Noun)[] = [
  servers,
  access,
  invites,
  console,
  databases,
  events,
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
  ipPools,
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
