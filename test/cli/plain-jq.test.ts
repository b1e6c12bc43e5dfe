import fc from 'fast-check'
import { raw } from 'jq-wasm'
import { describe, expect, it } from 'vitest'
import { plainJq } from '../../src/cli/kit/output/plain-jq.ts'

const NAMES = ['id', 'name', 'a', 'status', 'node', '__proto__', 'and', '10', 'x y']
const scalar = fc.oneof(
  fc.constantFrom(null, true, false, 0, 1, -1, 12.5, 0.1, 1e21, 1e-7, 123456789012, 'crashed', 'a', ''),
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.string({ unit: 'binary', maxLength: 4 }),
  fc.string({ maxLength: 6 }),
)
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie('any'), { maxLength: 4 }),
    fc
      .array(fc.tuple(fc.constantFrom(...NAMES), tie('any')), { maxLength: 5 })
      .map((pairs) => Object.fromEntries(pairs)),
  ),
})).any
/** What lists answer: rows with the same fields. */
const rows = fc.array(
  fc.record({
    id: fc.integer(),
    name: fc.string({ maxLength: 5 }),
    status: fc.constantFrom('running', 'crashed'),
    node: fc.record({ name: scalar }),
    a: value,
  }),
  { maxLength: 4 },
)

const name = fc.constantFrom(
  '.id',
  '.name',
  '.a',
  '.status',
  '.node',
  '.node.name',
  '.and',
  '."x y"',
  '.["id"]',
  '."10"',
)
const path = fc.oneof(
  name,
  fc.tuple(name, fc.constantFrom('', '[0]', '[-1]', '.a', '[]', '.[]', '.[1]')).map((parts) => parts.join('')),
)
const expression = fc
  .letrec((tie) => ({
    any: fc.oneof(
      { maxDepth: 3, depthSize: 'small' },
      fc.constantFrom(
        '.',
        '.[]',
        'length',
        '.[0]',
        '.[-1]',
        '[]',
        '. ',
        ...['keys', 'sort', 'unique', 'reverse', 'first', 'last', 'add', 'not', '@tsv'],
        ...['join(",")', 'join("")', 'sort_by(.id)', 'sort_by(.name)', 'sort_by(.)', 'first(.)', 'first | last'],
        ...['"\\(.id): \\(.name)"', '"\\(.)"', '"a\\(.a.b )c"', '"\\n"', '"', '[.id, .name] | @tsv'],
        '.. | 1',
        '.id?',
        '.[1:2]',
        '-1',
        '"a"',
        '. id',
        '.[ 0 ]',
        '.a.',
        '',
      ),
      path,
      fc
        .tuple(
          path,
          fc.constantFrom('==', '!=', '<', '>=', ' == '),
          fc.constantFrom('"crashed"', '1', 'null', 'true', '0.5', '"é"', '-0'),
        )
        .map(([p, sign, to]) => `select(${p}${sign}${to})`),
      path.map((p) => `select(${p})`),
      fc.tuple(path, path).map(([a, b]) => `{id, name: ${a}, "x y":${b}}`),
      fc.tuple(tie('any'), fc.constantFrom('|', ' | ', ',', ', '), tie('any')).map((parts) => parts.join('')),
      tie('any').map((inner) => `map(${String(inner)})`),
      tie('any').map((inner) => `[${String(inner)}]`),
      tie('any').map((inner) => `(${String(inner)})`),
    ),
  }))
  .any.map(String)

describe('an expression without jq', () => {
  it('means what jq says, or is left to jq', async () => {
    let plain = 0
    const check = async (data: unknown, text: string): Promise<void> => {
      const lines = plainJq(data, text)
      if (lines === undefined) return
      plain += 1
      // Between signs, because blanks around all of it are taken off here.
      const { stdout, exitCode, stderr } = await raw(JSON.stringify(data), `"<", (${text}), ">"`, ['-c', '-r'])
      expect([exitCode, stderr, stdout], `${text} of ${JSON.stringify(data)}`).toEqual([
        0,
        '',
        ['<', ...lines, '>'].join('\n'),
      ])
    }
    await fc.assert(fc.asyncProperty(value, expression, check), { numRuns: 120 })
    const words = fc.array(fc.oneof({ arbitrary: fc.string({ maxLength: 3 }), weight: 9 }, scalar), { maxLength: 4 })
    const numbers = fc.array(fc.oneof(fc.integer(), fc.double({ noNaN: true, noDefaultInfinity: true })), {
      maxLength: 4,
    })
    await fc.assert(fc.asyncProperty(fc.oneof(words, numbers), expression, check), { numRuns: 120 })
    await fc.assert(fc.asyncProperty(rows, expression, check), { numRuns: 80 })
    await fc.assert(
      fc.asyncProperty(rows, expression, (data, text) => check(data, `.[] | ${text}`)),
      { numRuns: 80 },
    )
    expect(plain).toBeGreaterThan(10)
  })

  it.each([
    ['.[].id', '1\n2'],
    ['.[] | select(.status=="crashed") | .name', 'b'],
    ['.[0].node.name', 'local'],
    ['map(.id)', '[1,2]'],
    ['.[] | {id, node: .node.name}', '{"id":1,"node":"local"}\n{"id":2,"node":null}'],
    ['length', '2'],
    ['[.[] | select(.id > 1)] | length', '1'],
    ['map(.name) | sort | join(",")', 'a,b'],
    ['sort_by(.status) | map(.status)', '["crashed","running"]'],
    ['map(.id) | add', '3'],
    ['.[0].node | keys', '["name"]'],
    ['.[] | "\\(.name) is \\(.status)"', 'a is running\nb is crashed'],
    ['.[] | [.id, .name] | @tsv', '1\ta\n2\tb'],
  ])('takes %s', (text, lines) => {
    const data = [
      { id: 1, name: 'a', status: 'running', node: { name: 'local' } },
      { id: 2, name: 'b', status: 'crashed', node: null },
    ]
    expect(plainJq(data, text)?.join('\n')).toBe(lines)
  })

  it.each([
    ...['keys', '.id?', '.. | .id?', '.[] as $x | $x', '"\\(.id + 1)"', '.[', '.id # all', 'sort', 'first(.[])'],
    ...['map(.id) | join(",")', '"\\n"', 'sort_by(.id, .name)', '@csv'],
  ])('leaves %s to jq', (text) => {
    expect(plainJq([{ id: 1 }], text)).toBeUndefined()
  })
})
