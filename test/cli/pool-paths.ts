/** The commands that test/cli/pool-commands.test.ts runs. */
export const POOLS: readonly string[] = [
  'ip-pools create',
  'ip-pools delete',
  'ip-pools edit',
  'ip-pools list',
  'ip-pools networks',
  'ip-pools next',
  'ip-pools usage',
  'ip-pools view',
  'servers bulk',
  'servers pin',
  'servers status',
  'servers suspend',
  'servers unpin',
  'servers unsuspend',
]
