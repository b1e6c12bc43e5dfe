import type { Settings } from '../../../core/settings.ts'
import type { Queries } from '../../../db/db.ts'

/** Whether nobody can sign in yet because the first administrator is still to be made. */
export async function isSetupRequired(q: Queries, settings: Settings): Promise<boolean> {
  return settings.get('setup.completedAt') === null && !(await hasUsers(q))
}

/** Whether the setup is over as this transaction sees it, commits of its own group included. */
export async function isSetUp(q: Queries): Promise<boolean> {
  const flag = await q.selectFrom('setting').select('value').where('key', '=', 'setup.completedAt').executeTakeFirst()
  return (flag !== undefined && flag.value !== 'null') || (await hasUsers(q))
}

async function hasUsers(q: Queries): Promise<boolean> {
  return (await q.selectFrom('user').select('id').limit(1).executeTakeFirst()) !== undefined
}
