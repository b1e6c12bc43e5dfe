import type { Roles } from '../src/cli/roles.ts'

/** Each role of the program is loaded only when it is the one that runs. */
const roles: Roles = {
  runDaemon: async (options) => (await import('../src/daemon/main.ts')).runDaemon(options),
  checkDaemon: async (options) => (await import('../src/daemon/check.ts')).checkConfiguration(options),
  runUp: async (options) => (await import('../src/daemon/up.ts')).runUp(options),
  findDaemon: async (options) => (await import('../src/daemon/running.ts')).findDaemon(options),
  dataFolder: async (options) => (await import('../src/daemon/running.ts')).dataFolder(options),
  countGames: async (options) => {
    const { agentDataDir } = await import('../src/daemon/running.ts')
    const { runningServers } = await import('../src/agent/running-servers.ts')
    return (await runningServers(agentDataDir(options))).length
  },
  stopDaemon: async (options) => (await import('../src/daemon/running.ts')).stopDaemon(options),
  checkDatabase: async (options) => (await import('../src/daemon/database-files.ts')).checkDatabase(options),
  restoreDatabase: async (options) => (await import('../src/daemon/database-files.ts')).restoreDatabase(options),
  examineSelfBackup: async (options) => (await import('../src/daemon/self-restore.ts')).examineSelfBackup(options),
  restorePanel: async (options) => (await import('../src/daemon/self-restore.ts')).restorePanel(options),
  runAgent: async (options) => (await import('../src/agent/run.ts')).runAgent(options),
  enrollAgent: async (options) => (await import('../src/agent/run.ts')).enrollAgent(options),
}

void import('../src/cli/main.ts').then(({ runCli }) => runCli(process.argv.slice(2), roles))
