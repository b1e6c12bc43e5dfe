import { AgentFailure } from '../agent/failure.ts'
import { type Agent, ConfigError, readEmbeddedConfig, type SftpConfig, startAgent } from '../agent/main.ts'
import { PanelError } from '../shared/kernel/errors.ts'
import type { Clock } from '../shared/kernel/time.ts'
import type { Log } from './core/log.ts'
import { createLoopback } from './gateway/loopback.ts'
import type { Daemon } from './main.ts'
import { agentDataDir } from './running.ts'
import { readVersion } from './version.ts'

/**
 * Runs an agent inside the daemon's process, over the same WebSocket code as an agent elsewhere: same upgrade, same
 * headers, same key check, without a network in between.
 */
export async function startEmbeddedAgent(
  daemon: Daemon,
  options: {
    nodeId: string
    nodeKey: string
    dataDir: string
    /** Where the panel listens. */
    host: string
    clock: Clock
    log: Log
    /** In place of what the agent's own configuration says. */
    sftp?: SftpConfig
  },
): Promise<{ agent: Agent; stop(): Promise<void> }> {
  const { gateway, holder, http } = daemon.app
  const loopback = createLoopback(
    (request, socket, head) => gateway.upgrade(request, socket, head),
    (request, response) => http.routing(request, response),
  )
  const { docker, starts, mounts, pull, backups, sftp, migration } = await readEmbeddedConfig().catch(
    (error: unknown) => {
      if (!(error instanceof ConfigError)) throw error
      throw new PanelError('VALIDATION_ERROR', error.message, { cause: error })
    },
  )
  const starting = startAgent({
    dataDir: agentDataDir(options),
    connect: {
      url: daemon.url,
      nodeId: options.nodeId,
      nodeKey: options.nodeKey,
      createConnection: () => loopback.connect(),
    },
    holder,
    docker,
    starts,
    mounts,
    pull,
    backups,
    migration,
    // Where the panel is reached, unless the agent's own configuration says another place.
    sftp: { host: options.host, ...(options.sftp ?? sftp) },
    ownFolders: [options.dataDir],
    clock: options.clock,
    log: options.log.child({ component: 'agent' }),
    version: readVersion(),
  })
  const agent = await starting.catch((error: unknown) => {
    loopback.close()
    if (!(error instanceof AgentFailure)) throw error
    throw new PanelError('CONFLICT', error.message, { cause: error })
  })
  return {
    agent,
    stop: async () => {
      await agent.stop()
      loopback.close()
    },
  }
}

export { runningServers } from '../agent/running-servers.ts'
