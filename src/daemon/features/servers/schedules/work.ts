import type { createTask, updateTask } from '../../../../shared/api/schedules.ts'
import type { Input } from '../../../../shared/kernel/contract.ts'
import { fieldError } from '../../../../shared/kernel/errors.ts'
import { TaskStep } from '../../../../shared/kernel/schedule.ts'
import { strictBody } from '../../../../shared/kernel/strict-body.ts'

type Given = Pick<
  Input<typeof createTask>['body'] | Input<typeof updateTask>['body'],
  'steps' | 'action' | 'payload' | 'timeOffset'
>

/** Made when a body says a step first. */
let oneStep: ReturnType<typeof strictBody<typeof TaskStep>> | undefined

/**
 * What a schedule is to do, by a body that says it as `steps` or as one `action`; `undefined`: the body does not say it. `before`
 * are the steps that it has: a body may change the payload of the only one. Throws VALIDATION_ERROR with the field.
 */
export function stepsGiven(body: Given, before: readonly TaskStep[] = []): TaskStep[] | undefined {
  const { steps, action, payload, timeOffset } = body
  if (steps !== undefined) {
    const field = (['action', 'payload', 'timeOffset'] as const).find((name) => body[name] !== undefined)
    if (field !== undefined) throw fieldError(`body.${field}`, 'cannot stand beside steps')
    return steps
  }
  if (action === undefined && payload === undefined && timeOffset === undefined) return undefined
  const [only] = before.length === 1 ? before : []
  if (action === undefined && only === undefined) {
    throw fieldError('body.action', 'must say what is done, or steps must')
  }
  const same = action === undefined || action === only?.action ? only : undefined
  oneStep ??= strictBody(TaskStep)
  const parsed = oneStep.safeParse({
    action: action ?? only?.action,
    ...(payload === undefined && same === undefined ? {} : { payload: payload ?? same?.payload }),
    timeOffset: timeOffset ?? only?.timeOffset ?? 0,
    continueOnFailure: false,
  })
  if (!parsed.success) {
    const [issue] = parsed.error.issues
    const unknown = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : []
    const field = [...(issue?.path ?? []), ...unknown].join('.')
    throw fieldError(`body.${field || 'action'}`, issue?.message ?? 'is not valid')
  }
  return [parsed.data]
}
