import * as access from './api/access.ts'
import * as accountRecovery from './api/account-recovery.ts'
import * as accountSecurity from './api/account-security.ts'
import * as admin from './api/admin.ts'
import * as adminServers from './api/admin-servers.ts'
import * as alertRules from './api/alert-rules.ts'
import * as alerts from './api/alerts.ts'
import * as allocations from './api/allocations.ts'
import * as apiKeys from './api/api-keys.ts'
import * as assignments from './api/assignments.ts'
import * as auditLog from './api/audit-log.ts'
import * as auth from './api/auth.ts'
import * as backupPolicies from './api/backup-policies.ts'
import * as backupStores from './api/backup-stores.ts'
import * as backups from './api/backups.ts'
import * as bulkServers from './api/bulk-servers.ts'
import * as console from './api/console.ts'
import * as dashboard from './api/dashboard.ts'
import * as databaseHosts from './api/database-hosts.ts'
import * as databases from './api/databases.ts'
import * as effectivePermissions from './api/effective-permissions.ts'
import * as files from './api/files.ts'
import * as ipPools from './api/ip-pools.ts'
import * as jobs from './api/jobs.ts'
import * as locations from './api/locations.ts'
import * as lockouts from './api/lockouts.ts'
import * as metricsStreams from './api/metrics-streams.ts'
import * as migration from './api/migration.ts'
import * as nests from './api/nests.ts'
import * as nodes from './api/nodes.ts'
import * as oidcSettings from './api/oidc-settings.ts'
import * as orphans from './api/orphans.ts'
import * as overview from './api/overview.ts'
import * as passkeys from './api/passkeys.ts'
import * as plugins from './api/plugins.ts'
import * as power from './api/power.ts'
import * as profile from './api/profile.ts'
import * as providers from './api/providers.ts'
import * as roles from './api/roles.ts'
import * as schedules from './api/schedules.ts'
import * as securitySettings from './api/security-settings.ts'
import * as selfBackups from './api/self-backups.ts'
import * as serverAllocations from './api/server-allocations.ts'
import * as serverEvents from './api/server-events.ts'
import * as serverLife from './api/server-life.ts'
import * as servers from './api/servers.ts'
import * as settings from './api/settings.ts'
import * as sftp from './api/sftp.ts'
import * as sftpSessions from './api/sftp-sessions.ts'
import * as smtpSettings from './api/smtp-settings.ts'
import * as sshKeys from './api/ssh-keys.ts'
import * as sso from './api/sso.ts'
import * as suspension from './api/suspension.ts'
import * as systemErrors from './api/system-errors.ts'
import * as templateCatalog from './api/template-catalog.ts'
import * as templatePin from './api/template-pin.ts'
import * as templates from './api/templates.ts'
import * as themeSettings from './api/theme-settings.ts'
import * as twoFactor from './api/two-factor.ts'
import * as updates from './api/updates.ts'
import * as users from './api/users.ts'
import * as webhooks from './api/webhooks.ts'
import type { Endpoint, StreamEndpoint } from './kernel/contract.ts'

const groups = [
  access,
  accountRecovery,
  accountSecurity,
  admin,
  adminServers,
  alertRules,
  alerts,
  allocations,
  apiKeys,
  assignments,
  auditLog,
  auth,
  backupPolicies,
  backups,
  backupStores,
  bulkServers,
  console,
  dashboard,
  databaseHosts,
  databases,
  effectivePermissions,
  files,
  ipPools,
  jobs,
  locations,
  lockouts,
  metricsStreams,
  migration,
  nests,
  nodes,
  orphans,
  overview,
  oidcSettings,
  passkeys,
  plugins,
  power,
  profile,
  providers,
  roles,
  schedules,
  securitySettings,
  selfBackups,
  serverAllocations,
  serverEvents,
  serverLife,
  servers,
  settings,
  sftp,
  sftpSessions,
  smtpSettings,
  suspension,
  sshKeys,
  sso,
  systemErrors,
  templateCatalog,
  templatePin,
  templates,
  themeSettings,
  twoFactor,
  updates,
  users,
  webhooks,
]

const declared: readonly unknown[] = groups.flatMap((group) => Object.values(group))

/** Every JSON endpoint of the API, found by shape: routing, OpenAPI, client tests and parity checks walk this list. */
export const endpoints: readonly Endpoint[] = declared.filter((value): value is Endpoint => isKind(value, 'endpoint'))

/** Every event stream of the API. */
export const streams: readonly StreamEndpoint[] = declared.filter((value): value is StreamEndpoint =>
  isKind(value, 'stream'),
)

/** By its own fields: a schema among them is not looked into, which would make it. */
function isKind(value: unknown, kind: string): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.hasOwn(value, 'kind') &&
    'kind' in value &&
    value.kind === kind
  )
}
