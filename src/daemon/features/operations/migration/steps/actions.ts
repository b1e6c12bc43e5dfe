import { activateServer } from './activate-server.ts'
import { compareFiles } from './compare-files.ts'
import { copyDatabase } from './copy-database.ts'
import { createBackup } from './create-backup.ts'
import { freezeSource } from './freeze-source.ts'
import { importBackup } from './import-backup.ts'
import { importDatabase } from './import-database.ts'
import { importLocation } from './import-location.ts'
import { importMount } from './import-mount.ts'
import { importNest } from './import-nest.ts'
import { importSchedule } from './import-schedule.ts'
import { importServer } from './import-server.ts'
import { importSubuser } from './import-subuser.ts'
import { importTemplate } from './import-template.ts'
import { importUser } from './import-user.ts'
import { inviteUser } from './invite-user.ts'
import { placeFiles } from './place-files.ts'
import {
  rollbackAccess,
  rollbackDatabase,
  rollbackLocation,
  rollbackNest,
  rollbackSchedule,
  rollbackServer,
  rollbackTemplate,
  rollbackUser,
} from './roll-back.ts'
import { sourceCleanup } from './source-cleanup.ts'
import type { StepAction } from './step.ts'
import { transferFiles } from './transfer-files.ts'
import { verifyFiles } from './verify-files.ts'
import { writeReport } from './write-report.ts'

/** What each action of a plan does. */
export const ACTIONS: Readonly<Record<string, StepAction<never> | undefined>> = {
  compare_files: compareFiles as StepAction<never>,
  copy_database: copyDatabase as StepAction<never>,
  import_location: importLocation as StepAction<never>,
  import_mount: importMount as StepAction<never>,
  import_nest: importNest as StepAction<never>,
  import_template: importTemplate as StepAction<never>,
  import_user: importUser as StepAction<never>,
  invite_user: inviteUser as StepAction<never>,
  import_server: importServer as StepAction<never>,
  import_backup: importBackup as StepAction<never>,
  import_database: importDatabase as StepAction<never>,
  import_subuser: importSubuser as StepAction<never>,
  import_schedule: importSchedule as StepAction<never>,
  freeze_source: freezeSource as StepAction<never>,
  create_backup: createBackup as StepAction<never>,
  transfer_files: transferFiles as StepAction<never>,
  verify_files: verifyFiles as StepAction<never>,
  place_files: placeFiles as StepAction<never>,
  source_cleanup: sourceCleanup as StepAction<never>,
  activate_server: activateServer as StepAction<never>,
  write_report: writeReport as StepAction<never>,
  rollback_access: rollbackAccess as StepAction<never>,
  rollback_database: rollbackDatabase as StepAction<never>,
  rollback_location: rollbackLocation as StepAction<never>,
  rollback_nest: rollbackNest as StepAction<never>,
  rollback_schedule: rollbackSchedule as StepAction<never>,
  rollback_server: rollbackServer as StepAction<never>,
  rollback_template: rollbackTemplate as StepAction<never>,
  rollback_user: rollbackUser as StepAction<never>,
}
