import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentFailure } from '../../src/agent/failure.ts'
import { serverEnvironment, startupCommand } from '../../src/agent/server/environment.ts'
import { startupLineProblem } from '../../src/shared/kernel/startup-line.ts'
import { RESERVED_VARIABLES, SHELL_VARIABLES, VariableName } from '../../src/shared/protocol/server-spec.ts'
import { gameSpec } from '../agent/agent-stage.ts'

const HOSTILE = [
  'a --inspect=0.0.0.0:1 b',
  '/etc/pass*',
  '*',
  '',
  ' ',
  '\t\n',
  'two\nlines',
  '$(touch fell)',
  '`touch fell`',
  '; touch fell;',
  '| touch fell',
  '&& touch fell',
  '> fell',
  '"; touch fell; "',
  "'; touch fell; '",
  '$' + '{HOME}',
  '$((1+1))',
  '\\',
  '\\"',
  '~',
  '-rf',
  '{a,b}',
  '[a-z]*',
  '!!',
  '#',
  'EOF',
  '{{OTHER}}',
  'ü ´ \u2028 \ud83d\ude00',
]
let dir: string

beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), 'panel-values-'))
  for (const name of ['pass-one', 'x y', '--force']) writeFileSync(join(dir, name), '')
})
afterAll(() => rmSync(dir, { recursive: true, force: true }))

/** The arguments that a program gets from a startup line, as a real shell gives them. */
function argumentsOf(startup: string, value: string): string[] {
  const spec = gameSpec('srv_values', 1, { startup, env: { VALUE: value, OTHER: 'other' } })
  const env = { ...serverEnvironment(spec, dir), PATH: '/usr/bin:/bin' }
  const said = execFileSync('/bin/sh', ['-c', startupCommand(spec)], { env, cwd: dir, encoding: 'utf8' })
  return said.split('\0').slice(0, -1)
}

describe('a value in a startup line', () => {
  const lines: [what: string, startup: string, expected: (value: string) => string[]][] = [
    ['unquoted', `printf '%s\\0' {{VALUE}} end`, (value) => [value, 'end']],
    ['in a word', `printf '%s\\0' -Xmx{{VALUE}}M end`, (value) => [`-Xmx${value}M`, 'end']],
    ['twice in a word', `printf '%s\\0' {{VALUE}}:{{ VALUE }}`, (value) => [`${value}:${value}`]],
    ['in double quotes', `printf '%s\\0' "a {{VALUE}} b"`, (value) => [`a ${value} b`]],
    ['after an escaped quote', `printf '%s\\0' "\\"{{VALUE}}" \\"{{VALUE}}`, (value) => [`"${value}`, `"${value}`]],
    ['in an assignment', `A={{VALUE}}; printf '%s\\0' "$A"`, (value) => [value]],
    ['as a default', `printf '%s\\0' \${NONE:-{{VALUE}}} "\${NONE:-{{VALUE}}}"`, (value) => [value, value]],
    ['after a comment with a quote', `# don't\nprintf '%s\\0' {{VALUE}}`, (value) => [value]],
    ['after single quotes', `printf '%s\\0' 'x "' {{VALUE}}`, (value) => ['x "', value]],
    ['for another shell', `sh -c 'printf "%s\\0" {{VALUE}} "{{VALUE}}"'`, (value) => [value, value]],
    ['in a function of the shell', `f() { printf '%s\\0' "$@"; }; f {{VALUE}} x`, (value) => [value, 'x']],
    ['in a command substitution', `printf '%s\\0' "$(printf '%s.' {{VALUE}} x)"`, (value) => [`${value}.x.`]],
    ['in backquotes', "printf '%s\\0' \"`printf '%s.' {{VALUE}} x`\"", (value) => [`${value}.x.`]],
    ['behind them', `printf '%s\\0' "$(echo "a" "(")" {{VALUE}}`, (value) => ['a (', value]],
    [
      'in a here-document',
      `{ cat; printf '\\0'; } <<EOF\n<{{VALUE}}>\nEOF\nprintf '%s\\0' {{VALUE}}`,
      (value) => [`<${value}>\n`, value],
    ],
    [
      'in a substitution within a here-document',
      `{ cat; printf '\\0'; } <<EOF\n$(printf '%s.' {{VALUE}} x)\nEOF`,
      (value) => [`${value}.x.\n`],
    ],
    ['among patterns', `case x in y) exit 1;; x) printf '%s\\0' {{VALUE}};; esac`, (value) => [value]],
    ['behind what is no comment', `printf '%s\\0' \${NONE:-a #b} {{VALUE}}`, (value) => ['a', '#b', value]],
    ['by another name', `printf '%s\\0' {{env.VALUE}} {{server.build.env.VALUE}}`, (value) => [value, value]],
  ]
  it.each(lines)('is one word, whatever it is: %s', { tags: ['long'] }, (_what, startup, expected) => {
    for (const value of HOSTILE) expect([value, argumentsOf(startup, value)]).toEqual([value, expected(value)])
    expect(execFileSync('ls', [dir], { encoding: 'utf8' })).toBe('--force\npass-one\nx y\n')
  })

  it('is a number in arithmetic', () => {
    expect(argumentsOf(`printf '%s\\0' $(( ({{VALUE}} + 2) * 3 )) {{VALUE}}`, '4')).toEqual(['18', '4'])
  })

  it('is nothing for a name that no variable has', () => {
    expect(argumentsOf(`printf '%s\\0' a {{NOBODY}} b{{nobody.knows}}`, 'x')).toEqual(['a', 'b'])
  })

  it.each([
    ['patterns in a substitution', `"$(case a in a) printf '[%s]' {{VALUE}};; esac)"`, 'use if, or move the case out'],
    ['a subshell that looks like arithmetic', `echo "$((printf '[%s]' {{VALUE}}) | cat)"`, 'must have a blank'],
    ['an end of a here-document that is partly quoted', `cat <<E'O'F\n{{VALUE}}\nEOF`, 'one plain word'],
    ['an end that is no word', `cat <<$X\n{{VALUE}}\n$X`, 'one plain word'],
    ['a here-document in which nothing is filled in', `cat <<'EOF'\n{{VALUE}}\nEOF`, 'write <<EOF'],
    ['a here-document without its end', `cat <<EOF; echo {{VALUE}}`, 'write its end alone on a line'],
    ['an end that is a part of the line before', `cat <<EOF\na\\\nEOF\n{{VALUE}}`, 'write its end alone on a line'],
    ['quotes that shells read differently', `printf '%s' $'it\\'s' {{VALUE}}`, 'use '],
  ])('is refused where its place cannot be known, with what to write instead: %s', (_what, startup, advice) => {
    expect(() => argumentsOf(startup, 'a b')).toThrow(advice)
    expect(startupLineProblem(startup)).toContain(advice)
    const without = startup.replaceAll('{{VALUE}}', 'x')
    expect(startupCommand(gameSpec('srv_values', 1, { startup: without }))).toBe(without)
  })

  it.each(['dash', 'bash'])('reaches the program by every name that a template may give it: %s', (shell) => {
    const own = (from: string, code: string) => execFileSync(from, ['-c', code], { encoding: 'utf8' }).split(/[=\n]/)
    const candidates = [
      'given',
      'panel_complete',
      'word',
      'out',
      'PIPESTATUS',
      'FUNCNAME',
      'DIRSTACK',
      'GROUPS',
      ...own('bash', 'compgen -v'),
      ...own('dash', 'set'),
    ]
    const names = [...new Set(candidates)].filter(
      (name) => VariableName.safeParse(name).success && !RESERVED_VARIABLES.has(name) && !SHELL_VARIABLES.has(name),
    )
    const env = names.map((name) => `export ${name}=abc\n`).join('')
    const { stdout: said } = spawnSync(shell, ['-c', `${env}exec ${shell} -c env`], { argv0: 'sh', encoding: 'utf8' })
    expect(names.filter((name) => !said.split('\n').includes(`${name}=abc`))).toEqual([])
    expect(names.length).toBeGreaterThan(10)
  })

  it('takes no time for lines that open and close nothing', () => {
    const began = performance.now()
    for (const part of ['${', '"', '$((', '`', "'", '<<A\n', '{{VALUE}}', '{{', '#', '\\', '(']) {
      const spec = gameSpec('srv_values', 1, { startup: part.repeat(4096 / part.length), env: { VALUE: 'x' } })
      try {
        startupCommand(spec)
      } catch (error) {
        expect(error).toBeInstanceOf(AgentFailure)
      }
    }
    expect(performance.now() - began).toBeLessThan(1000)
  })
})
