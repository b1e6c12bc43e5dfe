import type { patchServer, updateServer } from '../../../../shared/api/servers.ts'
import type { Answer, Input } from '../../../../shared/kernel/contract.ts'
import { PanelError } from '../../../../shared/kernel/errors.ts'
import { type Principal, perform, type Work, workOf } from '../../../access/operation.ts'
import type { Tx } from '../../../db/db.ts'
import { ALONE, gather, type Settled } from '../../../db/gather.ts'
import { isStorageFailure } from '../../../db/sqlite/failures.ts'
import { type EditPlan, needsOthers, planEdit, writeEdits } from './edit.ts'
import type * as operations from './operations.ts'
import { findServerRow, findServerRows, type ServerRow } from './rows.ts'
import { toServer, viewerOf } from './view.ts'

/** An edit with who asks for it, by which endpoint. */
interface GivenEdit {
  readonly operation: typeof operations.updateServer | typeof operations.patchServer
  readonly principal: Principal
  readonly input: Input<typeof updateServer>
}

type Edited = Answer<typeof updateServer>
type Result = Settled<Edited> | typeof ALONE

/** Edits servers as {@link operations.updateServer} does; those that are asked for together are written together. */
export function editDesk(deps: operations.ServerDeps): (given: GivenEdit) => Promise<Edited> {
  return gather<GivenEdit, Edited>(deps.db, async (tx, given) => {
    const [only] = given
    const isAlone = given.length === 1 && only !== undefined && needsOthers(only.input.body)
    if (!isAlone) return await editAll(tx, deps, given)
    return [{ value: await perform(tx, only.operation, { deps, ...only }) }]
  })
}

/** An edit that may be carried out. */
interface Planned {
  readonly given: GivenEdit
  readonly work: Work<typeof updateServer | typeof patchServer, operations.ServerDeps>
  readonly plan: EditPlan
}

/**
 * Each is made or refused by itself; nothing is written before all have been checked. What others have a say in goes alone, and so do
 * further edits of a server that is among them.
 */
async function editAll(tx: Tx, deps: operations.ServerDeps, all: readonly GivenEdit[]): Promise<Result[]> {
  const settled = new Map<GivenEdit, Result>()
  const together = new Map<string, GivenEdit>()
  for (const given of all) {
    const { params, body } = given.input
    if (needsOthers(body) || together.has(params.serverId)) settled.set(given, ALONE)
    else together.set(params.serverId, given)
  }
  const found = await read(tx, [...together.keys()])
  const rows = new Map(found.map((row) => [row.id, row]))
  const planned: Planned[] = []
  const plan = async (serverId: string, given: GivenEdit): Promise<void> => {
    try {
      const work = await workOf(tx, { endpoint: given.operation.endpoint, deps, principal: given.principal })
      planned.push({ given, work, plan: await planEdit(work, rows.get(serverId), given.input.body) })
    } catch (error) {
      if (!(error instanceof PanelError) || isStorageFailure(error)) throw error
      settled.set(given, { error })
    }
  }
  await Promise.all(Array.from(together, ([serverId, given]) => plan(serverId, given)))
  for (const [given, answer] of await write(tx, deps, planned)) settled.set(given, { value: answer })
  return all.map((given) => settled.get(given) ?? { error: new Error('an edit was left out') })
}

/** The servers with these ids that are there; a single one comes faster as it is than as JSON. */
async function read(tx: Tx, ids: readonly string[]): Promise<ServerRow[]> {
  const [only] = ids
  if (ids.length !== 1 || only === undefined) return await findServerRows(tx.q, ids)
  const row = await findServerRow(tx.q, only)
  return row === undefined ? [] : [row]
}

/** Writes the edits with what they leave; answers how each server is shown to who has asked for it. */
async function write(
  tx: Tx,
  deps: operations.ServerDeps,
  planned: readonly Planned[],
): Promise<Map<GivenEdit, Edited>> {
  await writeEdits(
    { tx, deps },
    planned.map(({ plan }) => plan),
  )
  const answers = new Map<GivenEdit, Edited>()
  for (const { given, work, plan } of planned) {
    const row = editedRow(plan, tx.now)
    const shown = toServer(row, await viewerOf(tx, work.holder, [row]), work.deps.facts)
    answers.set(given, Object.assign(shown, { appliesAt: plan.appliesAt })) // a copy of so wide an object has a shape of its own each time
    await work.record(plan.done)
  }
  return answers
}

/** As it would be read again: nothing that is joined to a server's row changes by an edit that goes with others. */
function editedRow({ row, columns, generation }: EditPlan, updatedAt: Tx['now']): ServerRow {
  return columns === undefined ? row : { ...row, ...columns, generation, updatedAt }
}
