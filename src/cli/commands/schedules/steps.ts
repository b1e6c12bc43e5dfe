import { parseDuration } from '../../../shared/kernel/clock.ts'
import type { TaskStep } from '../../../shared/kernel/schedule.ts'
import { POWER_ACTIONS } from '../../../shared/kernel/server-life.ts'
import { usage } from '../../kit/failure.ts'

const HINT = 'steps: "command:<line>", power:start|stop|restart|kill, wait:<duration>, backup[:<name>]'

/** A step as the API takes it, by a word such as `wait:60`; whether it is allowed says the daemon. */
export function readStep(text: string): unknown {
  const [word = '', ...parts] = text.split(':')
  const rest = parts.join(':').trim()
  switch (word.trim()) {
    case 'command':
      return { action: 'command', payload: { command: rest } }
    case 'power': {
      const action = POWER_ACTIONS.find((known) => known === rest)
      if (action === undefined) throw usage(`power is one of ${POWER_ACTIONS.join(', ')}, not '${rest}'`, HINT)
      return { action }
    }
    case 'wait': {
      const ms = parseDuration(rest)
      if (ms === undefined) throw usage(`wait takes a duration such as 60 or 5m, not '${rest}'`, HINT)
      return { action: 'wait', payload: { seconds: ms / 1000 } }
    }
    case 'backup':
      return { action: 'backup', payload: rest === '' ? {} : { name: rest } }
    default:
      throw usage(`there is no step '${word}'`, HINT)
  }
}

/** A step in the words of `--step`. */
export function stepText(step: TaskStep): string {
  const before = step.timeOffset === 0 ? '' : `after ${step.timeOffset} s `
  return before + what(step) + (step.continueOnFailure ? ' (goes on when it fails)' : '')
}

function what(step: TaskStep): string {
  switch (step.action) {
    case 'command':
      return `command:${step.payload.command}`
    case 'wait':
      return `wait:${step.payload.seconds}`
    case 'backup':
      return step.payload.name === undefined ? 'backup' : `backup:${step.payload.name}`
    default:
      return `power:${step.action}`
  }
}
