/** The commands that test/cli/plugins-commands.test.ts runs: they need a plugin in the data folder. */
export const PLUGIN_COMMANDS: readonly string[] = [
  'plugins config',
  'plugins disable',
  'plugins enable',
  'plugins list',
  'plugins reload',
  'plugins view',
]
