import { dirname } from 'node:path'
import { powerServer } from '../../../shared/api/power.ts'
import { listServers } from '../../../shared/api/servers.ts'
import type { Action } from '../../kit/command.ts'
import { CliFailure, usage } from '../../kit/failure.ts'
import { readContexts, saveContext, saveCredential } from '../../kit/profile/contexts.ts'
import { chosenContext } from '../../kit/profile/target.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import { hasNextPage } from '../../kit/resource/next-page.ts'
import type { Named } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import type { RunningDaemon } from '../../roles.ts'
import { readServer, watchServer } from '../servers/watch.ts'

/** `panel up`: the daemon's side runs it; the context it makes is kept by us. */
export const up: Action = async (run) => {
  const { configDir } = run.env
  return run.roles.runUp({
    listen: run.args.text('listen'),
    dataDir: run.args.text('data-dir'),
    configDir,
    saveContext: async ({ name, url, socket, token }) => {
      await saveContext(configDir, { name, url, socket }, true)
      await saveCredential(configDir, name, { credential: { token, madeBy: 'up' }, store: 'file' })
    },
  })
}

/** `panel down`: the games first when that is wanted, then the daemon. */
export const down: Action = async (run) => {
  const timeoutMs = run.args.duration('timeout') ?? 60_000
  const dataDir = run.args.text('data-dir')
  if (run.args.flag('servers')) {
    const found = await run.roles.findDaemon({ dataDir })
    const code = found === undefined ? await refuseToLeave(run, dataDir) : await stopGamesOf(run, found, timeoutMs)
    if (code !== 0) return code
  }
  const asked = await run.roles.stopDaemon({ dataDir, timeoutMs })
  const stopped = asked?.daemon
  if (asked?.gone === false) {
    throw new CliFailure('TIMEOUT', `the panel (pid ${asked.daemon.pid}) did not stop within ${timeoutMs / 1000} s`)
  }
  if (run.out.machine) await run.out.value(stopped ?? null)
  else {
    const what = stopped === undefined ? await noneRuns(run, dataDir) : `the panel (pid ${stopped.pid}) is stopped`
    const games = await run.roles.countGames({ dataDir })
    run.notice(games === 0 ? what : `${what}; ${running(games)}`)
    const other = stopped === undefined ? await panelOfContext(run) : undefined
    if (other !== undefined) run.notice(`next: panel down --data-dir ${other} (the panel of the context in force)`)
  }
  return 0
}

async function noneRuns(run: Run, dataDir: string | undefined): Promise<string> {
  return `no panel runs in the data folder ${await run.roles.dataFolder({ dataDir })}`
}

/** The data folder of the panel that the context in force reaches by a socket, where one runs and no folder was named. */
async function panelOfContext(run: Run): Promise<string | undefined> {
  const named = run.args.text('data-dir') ?? run.args.globalText('url') ?? run.env.url
  if (named !== undefined) return undefined
  const file = await readContexts(run.env.configDir)
  const socket = chosenContext(file, run.env, { context: run.args.globalText('context') })?.socket
  if (socket === undefined) return undefined
  const dataDir = dirname(dirname(socket)) // `panel up` puts it into `run` in the data folder
  const isOther = dataDir !== (await run.roles.dataFolder({ dataDir: undefined }))
  if (!isOther) return undefined
  const found = await run.roles.findDaemon({ dataDir }).catch(() => undefined) // of another user: not ours to stop
  return found === undefined ? undefined : dataDir
}

/** Games without a panel: only one that runs can stop them, each in its own way. Those of the context's panel may be meant. */
async function refuseToLeave(run: Run, dataDir: string | undefined): Promise<number> {
  const other = await panelOfContext(run)
  if (other !== undefined) {
    throw new CliFailure('HOST_PRECONDITION', `${await noneRuns(run, dataDir)}; that of the context runs in ${other}`, {
      hint: `panel down --servers --data-dir ${other}`,
    })
  }
  const games = await run.roles.countGames({ dataDir })
  if (games === 0) return 0
  throw new CliFailure('HOST_PRECONDITION', `${await noneRuns(run, dataDir)}; ${running(games)}`, {
    hint: 'panel up, and in another terminal panel down --servers',
  })
}

function running(games: number): string {
  return games === 1 ? 'one game runs on' : `${games} games run on`
}

/** Only the games of this machine's panel: the context in force may be quite another one. */
async function stopGamesOf(run: Run, found: RunningDaemon, timeoutMs: number): Promise<number> {
  const { url } = await run.target()
  if (found.url === undefined) throw usage(`the panel (process ${found.pid}) is still starting`)
  if (new URL(url).href !== new URL(found.url).href) {
    const other = await panelOfContext(run)
    throw usage(
      `the context in force is ${url}, and the panel of ${found.dataDir} is ${found.url}`,
      other === undefined
        ? 'panel down --servers --context local'
        : `panel down --servers --data-dir ${other} (the panel of the context)`,
    )
  }
  return stopGames(run, timeoutMs)
}

async function stopGames(run: Run, timeoutMs: number): Promise<number> {
  const client = await run.client()
  const games: Named[] = []
  for (let page = 1; ; page++) {
    const { data, pagination } = await client.page(listServers, { query: { limit: 100, page } })
    games.push(...data.filter(({ status }) => ['running', 'starting', 'stopping', 'crashed'].includes(status)))
    if (!hasNextPage(pagination, data.length)) break
  }
  if (games.length === 0) return 0
  return forEach(run, games, (game) => stopGame(run, game, timeoutMs))
}

async function stopGame(run: Run, game: Named, timeoutMs: number): Promise<void> {
  const client = await run.client()
  await watchServer(run, { server: game, timeoutMs }, async (tick) => {
    const before = await readServer(run, game.id)
    if (tick.kind === 'open' && tick.first && before.status !== 'stopping') {
      const options = { idempotencyKey: run.idempotencyKey(game.id) }
      await client.call(powerServer, { params: { serverId: game.id }, body: { action: 'stop' } }, options)
    }
    if (tick.kind === 'done' && !tick.order.ok)
      throw new CliFailure('OPERATION_FAILED', `${game.name}: ${tick.order.error ?? 'the stop failed'}`)
    return (await readServer(run, game.id)).status === 'stopped' ? true : undefined
  })
  run.notice(`${game.name} is stopped`)
}
