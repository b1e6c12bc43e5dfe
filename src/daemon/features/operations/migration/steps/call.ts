import type { z } from 'zod'
import type { Answer, Endpoint } from '../../../../../shared/kernel/contract.ts'
import { strictBody } from '../../../../../shared/kernel/strict-body.ts'
import { type Operation, type OperationDeps, type Principal, perform } from '../../../../access/operation.ts'
import type { Tx } from '../../../../db/db.ts'
import { StepRefusal } from './step.ts'

/**
 * Carries out an operation of the panel with what a source has said. It goes through the same schemas as the request of a client: what
 * these refuse is refused here too, with the field and the reason.
 */
export async function call<E extends Endpoint, D extends OperationDeps>(
  tx: Tx,
  operation: Operation<E, D>,
  {
    deps,
    principal,
    params = {},
    body,
  }: {
    readonly deps: D
    readonly principal: Principal
    readonly params?: Readonly<Record<string, string>>
    readonly body?: unknown
  },
): Promise<Answer<E>> {
  const { endpoint } = operation
  const read = Object.entries(endpoint.params).map(([name, schema]) => [name, accepted(schema, params[name], name)])
  const input = {
    params: Object.fromEntries(read),
    query: accepted(endpoint.query, undefined, 'query'),
    body: accepted(strictBody(endpoint.body), body, ''),
  }
  return perform(tx, operation, { deps, principal, input: input as never }) // each part by its own schema
}

function accepted(schema: z.ZodType, value: unknown, at: string): unknown {
  const read = schema.safeParse(value)
  if (read.success) return read.data
  const [issue] = read.error.issues
  const field = [at, ...(issue?.path ?? []).map(String)].filter((part) => part !== '').join('.')
  throw new StepRefusal('VALIDATION_ERROR', `${field} ${issue?.message ?? 'is not accepted'}`.trim())
}
