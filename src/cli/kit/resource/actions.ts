import type { Data, Endpoint } from '../../../shared/kernel/contract.ts'
import { PanelError } from '../../../shared/kernel/errors.ts'
import type { Action, Reference } from '../command.ts'
import { CliFailure, usage } from '../failure.ts'
import type { View } from '../output/view.ts'
import type { Run } from '../run.ts'
import { fieldsOf } from './fields.ts'
import { type Named, resolve } from './resolve.ts'

/** Which thing a command is about: the kind of its positional word and the path parameter that takes the id. */
export interface Subject {
  readonly ref: Reference
  readonly param: string
  /** The positional's name where it is not the kind's. */
  readonly word?: string
}

/** Shows one thing. */
export function viewAction<E extends Endpoint>(endpoint: E, subject: Subject, view: View<Data<E>>): Action {
  return async (run) => {
    const { id } = await subjectOf(run, subject)
    await show(run, await call(run, endpoint, { params: { [subject.param]: id } }), view)
  }
}

/** Makes one thing from the options and `-F`. */
export function createAction<E extends Endpoint>(endpoint: E, view: View<Data<E>>): Action {
  return async (run) => {
    const data = await call(run, endpoint, { params: {}, body: await fieldsOf(run) })
    await show(run, data, view)
  }
}

/** Changes one thing by the options and `-F`; without any of them exit 2. */
export function editAction<E extends Endpoint>(endpoint: E, subject: Subject, view: View<Data<E>>): Action {
  return async (run) => {
    const { id } = await subjectOf(run, subject)
    const body = await fieldsOf(run)
    if (Object.keys(body).length === 0) throw usage('nothing to change is given', `panel ${run.path.join(' ')} --help`)
    await show(run, await call(run, endpoint, { params: { [subject.param]: id }, body }), view)
  }
}

/** Deletes one thing after a question that `--yes` answers. */
export function deleteAction<E extends Endpoint>(endpoint: E, subject: Subject, noun: string): Action {
  return async (run) => {
    await ignoringNotFound(run, async () => {
      const { id, name } = await subjectOf(run, subject)
      await run.prompt.confirm(`Delete the ${noun} ${name}?`)
      await call(run, endpoint, { params: { [subject.param]: id } })
      await deleted(run, { id, name })
    })
  }
}

/** Calls an endpoint with parts that are checked by the daemon: exit 8 lists what it refuses. */
export async function call<E extends Endpoint>(
  run: Run,
  endpoint: E,
  input: { readonly params: Record<string, string>; readonly query?: Record<string, unknown>; readonly body?: unknown },
): Promise<Data<E>> {
  const client = await run.client()
  const options = endpoint.method === 'POST' ? { idempotencyKey: run.idempotencyKey() } : {}
  return (await client.call<Endpoint>(endpoint, input, options)) as Data<E> // parsed by that endpoint's own schema
}

/** Runs a deletion; with `--ignore-not-found` an absent thing is no failure. */
export async function ignoringNotFound(run: Run, work: () => Promise<void>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const absent =
      (error instanceof PanelError && error.code.endsWith('NOT_FOUND')) ||
      (error instanceof CliFailure && error.code === 'NOT_FOUND')
    if (!absent || !run.args.flag('ignore-not-found')) throw error
    run.notice('it was not there')
  }
}

/** Reports a deletion: a row for programs, a notice for people. */
export async function deleted(run: Run, thing: Named): Promise<void> {
  if (run.out.machine) await run.out.value({ id: thing.id, deleted: true })
  else run.notice(`deleted ${thing.name}`)
}

/** The thing that the positional word names. */
export async function subjectOf(run: Run, subject: Subject): Promise<Named> {
  return resolve(run, subject.ref, run.args.required(subject.word ?? subject.ref))
}

async function show<T>(run: Run, data: T, view: View<T>): Promise<void> {
  await run.out.item(data, view)
}
