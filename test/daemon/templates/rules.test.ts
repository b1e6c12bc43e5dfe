import { describe, expect, test } from 'vitest'
import { checkEnvironment, ruleProblems, valueProblem } from '../../../src/shared/templates/variable-rules.ts'

const variable = (rules: string[], differs: { default?: string; required?: boolean } = {}) => ({
  name: 'V',
  default: '',
  required: false,
  ...differs,
  rules,
})
const takes = (rules: string[], value: string): boolean => valueProblem(variable(rules), value) === undefined

/** Rules, values that they take, values that they refuse. */
const TABLE: readonly [string[], string[], string[]][] = [
  [['string'], ['x', ' '], ['\0']],
  [['numeric'], ['1', '-1.5', '+.5', '1e3'], ['x', '1,5', '0x10', 'NaN', ' 1']],
  [['integer'], ['0', '-7', '+7'], ['1.0', 'x', '1e3']],
  [['boolean'], ['0', '1', 'true', 'false'], ['yes', '2']],
  [['min:3'], ['abc', 'äöü'], ['ab']],
  [['max:3'], ['abc', '😀😀😀'], ['abcd']],
  [['size:3'], ['abc'], ['ab', 'abcd']],
  [['between:2,3'], ['ab', 'abc'], ['a', 'abcd']],
  [
    ['integer', 'min:3'],
    ['3', '10'],
    ['2', '-10'],
  ],
  [
    ['numeric', 'max:2.5'],
    ['2.5', '-9'],
    ['2.6', '10'],
  ],
  [['max:64', 'integer'], ['64'], ['65']],
  [
    ['integer', 'between:1,64'],
    ['1', '64'],
    ['0', '65', 'abc'],
  ],
  [['in:a,b,"c"'], ['a', 'b', 'c'], ['d', 'a,b', 'A']],
  [['not_in:a,b'], ['c'], ['a']],
  [['starts_with:ab,cd'], ['abx', 'cd'], ['xab']],
  [['ends_with:.jar'], ['a.jar'], ['a.jarx']],
  [['regex:/^[a-z|:]+$/i'], ['Ab|:'], ['a1']],
  [['regex:#^a/b$#'], ['a/b'], ['a']],
  [['regex:/^a\\/b$/'], ['a/b'], ['ab']],
  [['not_regex:/\\s/'], ['ab'], ['a b']],
  [['alpha'], ['aä'], ['a1']],
  [['alpha_num'], ['aä1'], ['a-']],
  [['alpha_dash'], ['a-_1'], ['a b']],
  [['digits:4'], ['0042'], ['42', '-042']],
  [['digits_between:2,3'], ['12', '123'], ['1', '1234']],
  [['url'], ['https://example.org/x'], ['example.org', 'javascript:alert(1)']],
  [['ip'], ['1.2.3.4', '::1'], ['1.2.3']],
  [['ipv4'], ['1.2.3.4'], ['::1']],
  [['ipv6'], ['::1'], ['1.2.3.4']],
  [['email'], ['a@example.org'], ['a@']],
  [['uuid'], ['01890a5d-ac96-774b-bcce-b302099a8057'], ['01890a5d']],
  [['date'], ['2026-01-31'], ['soon']],
  [['json'], ['{"a":1}'], ['{']],
]

test.each(TABLE)('%j takes and refuses the right values', (rules, good, bad) => {
  expect(ruleProblems(rules)).toEqual([])
  for (const value of good) expect([value, takes(rules, value)]).toEqual([value, true])
  for (const value of bad) expect([value, takes(rules, value)]).toEqual([value, false])
})

describe('an empty value', () => {
  test('is refused only where one is required', () => {
    expect(takes(['integer', 'min:1'], '')).toBe(true)
    expect(takes(['nullable', 'in:a'], '')).toBe(true)
    expect(takes(['required', 'string'], '')).toBe(false)
    expect(valueProblem(variable([], { required: true }), '')).toBe('is required')
  })
})

test.each([
  'unknown',
  'required|string',
  'constructor',
  'min',
  'min:',
  'min:a',
  'min:1,2',
  'between:5',
  'between:9,1',
  'integer:5',
  'in:',
  'digits:-1',
  'digits:1.5',
  'regex:abc',
  'regex:/(/',
  'regex:/a/x',
  'regex:/(?=a)/',
])('refuses the rule %s', (rule) => {
  expect(ruleProblems(['string', rule]).map(({ index }) => index)).toEqual([1])
})

test('an expression that is a trap elsewhere answers at once', () => {
  const from = performance.now()
  expect(takes(['regex:/^(a+)+$/'], `${'a'.repeat(4000)}!`)).toBe(false)
  expect(performance.now() - from).toBeLessThan(2000)
})

describe('an environment', () => {
  const variables = [
    { name: 'A', default: '1', required: true, rules: ['integer'] },
    { name: 'B', default: '', required: true, rules: [] },
    { name: 'C', default: 'c', required: false, rules: ['max:3'] },
  ]

  test('is the given values over the defaults', () => {
    expect(checkEnvironment(variables, { B: 'x', C: '' })).toEqual({
      environment: { A: '1', B: 'x', C: '' },
      problems: [],
    })
  })

  test('names each problem by its variable', () => {
    const { problems } = checkEnvironment(variables, { A: 'x', C: 'long', toString: 'y' })
    expect(problems.map(({ field }) => field)).toEqual([
      'body.environment.toString',
      'body.environment.A',
      'body.environment.B',
      'body.environment.C',
    ])
  })

  test('keeps what a server has, and does not judge it', () => {
    const existing = { A: 'now wrong', B: 'kept', GONE: 'x' }
    expect(checkEnvironment(variables, { C: 'new' }, { existing })).toEqual({
      environment: { A: 'now wrong', B: 'kept', C: 'new' },
      problems: [],
    })
    expect(checkEnvironment(variables, { B: '' }, { existing }).problems).toEqual([
      { field: 'body.environment.B', message: 'is required' },
    ])
  })
})
