import type { Server } from '../../../shared/api/servers.ts'
import { suspendServer, unsuspendServer } from '../../../shared/api/suspension.ts'
import type { Action } from '../../kit/command.ts'
import { forEach } from '../../kit/resource/bulk.ts'
import type { Run } from '../../kit/run.ts'
import { targetsOf } from './targets.ts'
import { SERVER_VIEW } from './view.ts'

/** `panel servers suspend`; several servers are several calls, as those of `power` are. */
export const suspendServers: Action = async (run) => {
  const reason = run.args.text('reason')
  const body = { ...(reason === undefined ? {} : { reason }), stopServer: !run.args.flag('keep-running') }
  const client = await run.client()
  return each(run, (serverId, options) => client.call(suspendServer, { params: { serverId }, body }, options))
}

/** `panel servers unsuspend`. */
export const unsuspendServers: Action = async (run) => {
  const client = await run.client()
  return each(run, (serverId, options) => client.call(unsuspendServer, { params: { serverId } }, options))
}

async function each(
  run: Run,
  work: (serverId: string, options: { idempotencyKey: string }) => Promise<Server>,
): Promise<number> {
  const servers = await targetsOf(run)
  const done: Server[] = []
  const code = await forEach(run, servers, async ({ id }) => {
    done.push(await work(id, { idempotencyKey: run.idempotencyKey(id) }))
  })
  const [only] = done
  if (servers.length === 1 && only !== undefined) await run.out.item(only, SERVER_VIEW)
  else await run.out.list(done, SERVER_VIEW)
  return code
}
