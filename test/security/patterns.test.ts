import { describe, expect, it } from 'vitest'
import { readLine } from '../../src/cli/tui/log/ansi.ts'
import { terminalText } from '../../src/shared/kernel/terminal-text.ts'
import { readSource, sourceFiles } from '../module-graph.ts'
import { type FoundPattern, patternsIn } from '../source-patterns.ts'
import { REGISTRY } from './pattern-registry.ts'
import { attackText, cpuMs, timeOf, worstAttack } from './pattern-search.ts'

/** What the registry has to say of a file. */
function listed(found: readonly FoundPattern[]): { patterns: string[]; made: string[] } {
  const spelled = ({ text, kind }: FoundPattern): string =>
    kind === 'literal' ? text : text.replace(/\s+/g, kind === 'format' ? '' : ' ')
  const isMade = ({ kind }: FoundPattern): boolean => kind === 'made' || kind === 're2'
  const order = (texts: string[]): string[] => texts.sort()
  return {
    patterns: order(found.filter((one) => !isMade(one)).map(spelled)),
    made: order(found.filter(isMade).map(spelled)),
  }
}

const files = [...sourceFiles('bin'), ...sourceFiles('src')]

describe('the registry of expressions', () => {
  it('names every expression of the program, and no other', () => {
    for (const file of files) {
      const { patterns = [], made = {} } = REGISTRY[file] ?? {}
      const known = { patterns: [...patterns].sort(), made: Object.keys(made).sort() }
      expect(known, `${file}: see test/security/pattern-registry.ts`).toEqual(
        listed(patternsIn(file, readSource(file))),
      )
    }
    expect(Object.keys(REGISTRY).filter((file) => !files.includes(file))).toEqual([])
    expect(Object.values(REGISTRY).flatMap(({ patterns }) => patterns).length).toBeGreaterThan(250)
  })

  it.each([
    ['const a = /x+/g', 'literal'],
    ['f(text.replace(/[/]"/, ""))', 'literal'],
    ['const a = b ? new RegExp(c) : RegExp(d)', 'made'],
    ["text.match('a+')", 'made'],
    ['text.search(`ab`)', 'made'],
    ['RE2JS.compile(text)', 're2'],
    ['z.object({ a: z.email() })', 'format'],
    ['z.iso.datetime({ offset: true })', 'format'],
  ])('sees a planted one: %s', (text, kind) => {
    expect(patternsIn('planted.ts', text).map((found) => found.kind)).toContain(kind)
  })

  it('sees none in comments, texts and divisions', () => {
    expect(patternsIn('planted.ts', "// /a/\nconst a = '/b/' + (c / d / e) + `/f/`")).toEqual([])
  })
})

describe('an expression', () => {
  /** Each of its worst inputs that the search finds, in 100 kB: the least of three times, as others use the machine too. */
  function slowest(pattern: RegExp): { attack: unknown; ms: number } {
    const attack = worstAttack(pattern, { derived: 60, climbs: 30 })
    const text = attackText(attack, 100_000)
    let ms = timeOf(pattern, text)
    for (let again = 0; again < 2 && ms > 50; again++) ms = Math.min(ms, timeOf(pattern, text))
    return { attack, ms }
  }

  const literals = [...new Set(Object.values(REGISTRY).flatMap(({ patterns }) => patterns))].filter((text) =>
    text.startsWith('/'),
  )

  it('needs less than 100 ms for the worst 100 kB that a search finds', { tags: ['long'], timeout: 120_000 }, () => {
    const slow = literals.flatMap((text) => {
      const end = text.lastIndexOf('/')
      const { attack, ms } = slowest(new RegExp(text.slice(1, end), text.slice(end + 1)))
      return ms < 100 ? [] : [`${text} takes ${Math.round(ms)} ms: ${JSON.stringify(attack)}`]
    })
    expect(slow).toEqual([])
  })

  it.each([
    ['a quadratic one', /\s*-\s*/g],
    ['a cubic one', /([\w-]*(?:secret|token)[\w-]*\s*[:=]\s*)/g],
    ['an exponential one', /^(?:a+)+$/],
    ['one that is slow behind a beginning alone', /\{\{\s*([^{}]+?)\s*\}\}/g],
    ['one that is slow for one alternative', /^(?:[a-z]+|[0-9a-f:.]*:[0-9a-f:.]*)$/],
  ])('that is not linear is found: %s', { tags: ['long'] }, (_, pattern) => {
    expect(slowest(pattern).ms).toBeGreaterThan(100)
  })

  it('that is put together from parts is quick as well', () => {
    const pumps = [
      '\u001b[',
      '\u001b[1;',
      '\u001b]x',
      '\u009b',
      '\u0090',
      '\u001b ',
      '\u001b[1;1m',
      '\r',
      '\u001b\u001b]',
    ]
    for (const pump of pumps) {
      const text = pump.repeat(Math.ceil(100_000 / pump.length))
      for (const read of [readLine, (line: string) => terminalText(line, { colours: true }), terminalText]) {
        expect(
          cpuMs(() => read(text)),
          JSON.stringify(pump),
        ).toBeLessThan(300)
      }
    }
  })
})
