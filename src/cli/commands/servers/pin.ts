import * as api from '../../../shared/api/template-pin.ts'
import type { Action } from '../../kit/command.ts'
import { call, subjectOf } from '../../kit/resource/actions.ts'
import { fieldsOf } from '../../kit/resource/fields.ts'
import { SERVER_VIEW } from './view.ts'

/** `panel servers pin`. */
export const pinServer: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const body = await fieldsOf(run)
  await run.out.item(await call(run, api.pinServer, { params: { serverId: id }, body }), SERVER_VIEW)
}

/** `panel servers unpin`. */
export const unpinServer: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  await run.out.item(await call(run, api.unpinServer, { params: { serverId: id } }), SERVER_VIEW)
}
