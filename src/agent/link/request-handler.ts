import type { z } from 'zod'
import type { InputOf, ProgressOf, RequestDefinition, ResultOf } from '../../shared/protocol/define.ts'
import type { Operation } from '../../shared/protocol/frames.ts'
import type { ConsoleFeeds } from '../console/console.ts'
import { AgentFailure } from '../failure.ts'

/** What a handler gets beside its input. */
export interface RequestContext<Progress = unknown> {
  /** The console feeds of the connection that the request came over. */
  readonly feeds: ConsoleFeeds
  /** Aborts when the daemon cancels the request, or its connection ends. */
  readonly signal: AbortSignal
  /** Reports how far it is; may be called as often as one likes, since most reports are left out. */
  progress(report: Progress): void
}

/** The work of a request, bound to its definition. */
export interface RequestHandler {
  readonly op: string
  /** Checks the input and answers the result; rejects with an AgentFailure, BAD_REQUEST for input that does not fit. */
  run(request: Operation, context: RequestContext): Promise<unknown>
}

/** Binds work to the definition of a request; input, result and progress are checked against it by the compiler. */
export function onRequest<D extends RequestDefinition>(
  definition: D,
  work: (
    input: InputOf<NoInfer<D>>,
    context: RequestContext<ProgressOf<NoInfer<D>>>,
  ) => Promise<ResultOf<NoInfer<D>>> | ResultOf<NoInfer<D>>,
): RequestHandler {
  return {
    op: definition.op,
    run: async (request, context) => {
      const parsed = definition.input.safeParse(request)
      if (!parsed.success) throw badRequest(definition.op, parsed.error)
      return await work(parsed.data as InputOf<D>, context) // parsed by this very definition
    },
  }
}

/** The refusal of input that does not fit its definition, by the first field that is wrong. */
export function badRequest(op: string, { issues: [issue] }: z.ZodError): AgentFailure {
  const at = [op, ...(issue?.path ?? [])].map(String).join('.')
  return new AgentFailure('BAD_REQUEST', `${at.slice(0, 200)}: ${issue?.message ?? 'does not fit'}`)
}
