import * as api from '../../shared/api/users.ts'
import type { Action } from '../command.ts'
import { column, type View, wide } from '../output/view.ts'
import { readSecret } from '../prompt.ts'
import { call, viewAction } from '../resource/actions.ts'
import { fieldsOf } from '../resource/fields.ts'
import { listAction } from '../resource/list.ts'

const VIEW: View<api.User> = {
  id: (row) => row.id,
  name: (row) => row.username,
  columns: [
    column('USERNAME', (row) => row.username),
    column('EMAIL', (row) => row.email),
    column('ROLES', (row) => row.roles.map(({ name }) => name).join(',')),
    column('SERVERS', (row) => row.serverCount),
    column('SIGNED IN', (row) => ({ time: row.lastSuccessfulLogin })),
    column('ID', (row) => row.id),
    wide('NAME', (row) => row.name),
    wide('BANNED', (row) => row.banned),
    wide('CREATED', (row) => ({ time: row.createdAt })),
  ],
}

export const listUsers = listAction(api.listUsers, VIEW, async ({ args }) => ({
  query: args.flag('banned') ? { banned: true } : {},
}))
export const viewUser = viewAction(api.getUser, { ref: 'user', param: 'userId' }, VIEW)

export const createUser: Action = async (run) => {
  const body = await fieldsOf(run)
  body['password'] ??= await readSecret({ name: 'password', question: `Password of ${body['username']}:` }, run)
  await run.out.item(await call(run, api.createUser, { params: {}, body }), VIEW)
}
