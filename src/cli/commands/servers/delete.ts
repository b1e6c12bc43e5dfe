import { deleteServer as endpoint } from '../../../shared/api/servers.ts'
import type { Action } from '../../kit/command.ts'
import { call, deleted, ignoringNotFound, subjectOf } from '../../kit/resource/actions.ts'
import { isGone } from './gone.ts'
import { waitTimeout, wantsToWait } from './power.ts'
import { readServer, watchServer } from './watch.ts'

/** Deletes after the name was typed or passed by `--confirm`. */
export const deleteServer: Action = async (run) => {
  await ignoringNotFound(run, async () => {
    const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
    const server = await readServer(run, id)
    const files = run.args.flag('keep-files') ? '' : ' and all its files'
    await run.prompt.confirmName(`Delete the server ${server.name}${files}?`, server.name)
    const query = {
      ...(run.args.flag('force') ? { force: 'true' } : {}),
      ...(run.args.flag('keep-files') ? { keepFiles: 'true' } : {}),
    }
    const order = () => call(run, endpoint, { params: { serverId: id }, query })
    if (!wantsToWait(run)) {
      await order()
      return deleted(run, server)
    }
    let ordered = false
    try {
      await watchServer(run, { server, timeoutMs: waitTimeout(run) }, async (tick) => {
        if (!ordered) await order()
        ordered = true
        if (tick.kind === 'deleted') return true
        await readServer(run, id)
        return undefined
      })
    } catch (error) {
      if (!ordered || !isGone(error)) throw error
    }
    await deleted(run, server)
  })
}
