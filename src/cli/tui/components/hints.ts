import type { FieldsProps } from './fields.tsx'

export interface HintFacts {
  readonly focus: 'input' | 'log'
  readonly readOnly: boolean
  readonly takesNoInput: boolean
  readonly width: number
}

/** The last row: the keys that are worth most now, none that would be refused or typed into the game. */
export function hintFields({ focus, readOnly, takesNoInput, width }: HintFacts): FieldsProps {
  const log = [
    ...(readOnly || takesNoInput ? [] : ['i type']),
    '/ search',
    '& filter',
    'f follow',
    'l level',
    'w wrap',
    't time',
    'v copy',
    ...(readOnly ? [] : ['p power']),
    'e export',
    'M mouse',
    'q detach',
    '? help',
  ]
  const input = [
    '^] detach',
    'Esc log keys',
    'PgUp scroll',
    '↑ history',
    'Tab complete',
    'F5 power',
    'F6 export',
    'F1 help',
  ]
  const keys = focus === 'log' ? log : input
  return { left: keys.map((text) => ({ text, tone: 'dim' })), width }
}
