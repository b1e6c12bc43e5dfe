import type { AccessTables } from './schema/access.ts'
import type { AccountsTables } from './schema/accounts.ts'
import type { AlertsTables } from './schema/alerts.ts'
import type { BackupStoresTables } from './schema/backup-stores.ts'
import type { BackupsTables } from './schema/backups.ts'
import type { DatabasesTables } from './schema/databases.ts'
import type { IdentityTables } from './schema/identities.ts'
import type { InfrastructureTables } from './schema/infrastructure.ts'
import type { IpPoolsTables } from './schema/ip-pools.ts'
import type { JobsTables } from './schema/jobs.ts'
import type { MigrationTables } from './schema/migration.ts'
import type { PluginsTables } from './schema/plugins.ts'
import type { RecordsTables } from './schema/records.ts'
import type { SchedulesTables } from './schema/schedules.ts'
import type { SelfServiceTables } from './schema/self-service.ts'
import type { ServersTables } from './schema/servers.ts'

/** Every table, by its name in camel case; columns are snake case in SQL. */
export interface Schema
  extends AccessTables,
    AccountsTables,
    BackupStoresTables,
    BackupsTables,
    IdentityTables,
    DatabasesTables,
    InfrastructureTables,
    IpPoolsTables,
    JobsTables,
    MigrationTables,
    PluginsTables,
    RecordsTables,
    SelfServiceTables,
    AlertsTables,
    SchedulesTables,
    ServersTables {}
