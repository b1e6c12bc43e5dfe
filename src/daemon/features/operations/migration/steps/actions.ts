import { activateServer } from './activate-server.ts'
import { importDatabase } from './import-database.ts'
import { importLocation } from './import-location.ts'
import { importNest } from './import-nest.ts'
import { importServer } from './import-server.ts'
import { importSubuser } from './import-subuser.ts'
import { importTemplate } from './import-template.ts'
import { importUser } from './import-user.ts'
import type { StepAction } from './step.ts'
import { writeReport } from './write-report.ts'

/** What each action of a plan does. */
export const ACTIONS: Readonly<Record<string, StepAction<never> | undefined>> = {
  import_location: importLocation as StepAction<never>,
  import_nest: importNest as StepAction<never>,
  import_template: importTemplate as StepAction<never>,
  import_user: importUser as StepAction<never>,
  import_server: importServer as StepAction<never>,
  import_database: importDatabase as StepAction<never>,
  import_subuser: importSubuser as StepAction<never>,
  activate_server: activateServer as StepAction<never>,
  write_report: writeReport as StepAction<never>,
}
