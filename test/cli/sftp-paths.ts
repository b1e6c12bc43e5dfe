/** The commands that test/cli/sftp-commands.test.ts runs: they need an agent that takes SSH connections. */
export const SFTP: readonly string[] = [
  'profile ssh-keys add',
  'profile ssh-keys delete',
  'profile ssh-keys list',
  'servers ssh-command',
  'sftp end',
  'sftp info',
  'sftp revoke',
  'sftp rotate',
  'sftp sessions',
  'sftp tokens',
]
