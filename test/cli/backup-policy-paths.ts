/** The commands that test/cli/backup-policy-commands.test.ts runs. */
export const BACKUP_POLICIES: readonly string[] = [
  'backup-policies cancel',
  'backup-policies create',
  'backup-policies delete',
  'backup-policies edit',
  'backup-policies list',
  'backup-policies pause',
  'backup-policies results',
  'backup-policies resume',
  'backup-policies run',
  'backup-policies runs',
  'backup-policies servers',
  'backup-policies view',
]
