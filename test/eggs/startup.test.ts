import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serverEnvironment, startupCommand } from '../../src/agent/server/environment.ts'
import { readDocument } from '../../src/shared/templates/document.ts'
import { importEgg } from '../../src/shared/templates/egg-import.ts'
import { eggStartup } from '../../src/shared/templates/egg-startup.ts'
import { gameSpec } from '../agent/agent-stage.ts'
import { ALL_EGGS } from './egg-files.ts'
import { type GameShell, openGameShell } from './game-shell.ts'

// Bash everywhere: eggs are written for it.

let shell: GameShell
beforeAll(() => {
  const programs = ['java', 'quarry', 'srcds_run', 'RustDedicated', 'ts3server']
  shell = openGameShell(programs, ['pass-one', 'x y', 'fell.jar'])
})
afterAll(() => shell.close())

/** The line as we run it. */
function ours(startup: string, env: Record<string, string>): string[] {
  const spec = gameSpec('srv_egg', 1, { startup, env })
  return shell.argumentsOf(startupCommand(spec), serverEnvironment(spec, shell.dir))
}

/** What the images of the eggs' own panels make of the line: placeholders are variables of a shell. */
function theirs(startup: string, env: Record<string, string>): string[] {
  const spec = gameSpec('srv_egg', 1, { startup: 'true', env })
  const line = startup.replace(/\{\{([\w.]+)\}\}/g, (_, name: string) => {
    const own = name.replace('server.allocations.default.port', 'SERVER_PORT')
    return `\${${own === 'HOSTNAME' ? 'SERVER_HOSTNAME' : own}}`
  })
  return shell.argumentsOf(line, serverEnvironment(spec, shell.dir))
}

describe('the startup line of an egg', () => {
  it.each(ALL_EGGS)('gives the game the arguments that its own panel gives: $name', ({ text }) => {
    const { value } = readDocument(text)
    const { template } = importEgg(value)
    const env = Object.fromEntries(template.variables.map((one) => [one.name, one.default]))
    const { startup, startup_commands: several } = value as { startup?: string; startup_commands?: { Default: string } }
    const line = (startup ?? several?.Default ?? '').replaceAll('\\"', '"')
    if (/"[^"]*\$\(|printf %s "/.test(line)) return // quotes within what a substitution prints: below
    expect(ours(template.startup, env)).toEqual(theirs(line, env))
  })

  it('is read as images read it that read it twice', () => {
    const env = { SERVER_HOSTNAME: 'My Quarry', MOTD: 'come in', JAR: 'a.jar', MAP_URL: '', SEED: '7', ARGS: '-a  -b' }
    const { template } = importEgg(readDocument(ALL_EGGS.find(({ name }) => name === 'ptdl-v2.json')?.text ?? '').value)
    const args = ['-Xmx256M', '-jar', 'a.jar', '+hostname', 'My Quarry', '--motd', 'come in']
    expect(ours(template.startup, env)).toEqual([...args, '+seed', '7', '-a', '-b'])
    expect(ours(template.startup, { ...env, MAP_URL: 'http://x/*', ARGS: '' })).toEqual([...args, '+map', 'http://x/*'])
  })

  const run = (line: string, value: string): string[] =>
    ours(eggStartup(line, new Map()).command, { VALUE: value, OTHER: '' })

  it('is split at blanks where nothing is quoted, and an empty value vanishes', () => {
    expect(run('quarry a {{VALUE}} {{OTHER}} z', ' b  c\td\ne ')).toEqual(['a', 'b', 'c', 'd', 'e', 'z'])
    expect(run('quarry -p{{VALUE}}x', 'b c')).toEqual(['-pb', 'cx'])
    expect(run('quarry "{{VALUE}}" "{{OTHER}}" z', ' b  c')).toEqual([' b  c', '', 'z'])
    expect(run('quarry \\"{{VALUE}}\\" z', 'b c')).toEqual(['b c', 'z'])
    expect(run('A={{VALUE}}; quarry "$A"', 'b c')).toEqual(['b c'])
  })

  it.each([
    ['/etc/pass*', ['/etc/pass*']],
    ['* ? [a-z]*', ['*', '?', '[a-z]*']],
    ['$(touch fell) `touch fell`', ['$(touch', 'fell)', '`touch', 'fell`']],
    ['; touch fell; && touch fell', [';', 'touch', 'fell;', '&&', 'touch', 'fell']],
    [`"a b" 'c d'`, ['"a', 'b"', "'c", "d'"]],
    ['$HOME ~ {a,b} \\', ['$HOME', '~', '{a,b}', '\\']],
  ])('never reads a value as code or as a pattern: %s', (value, words) => {
    expect(run('quarry {{VALUE}}', value)).toEqual(words)
    expect(run(`quarry $( [ 1 == 1 ] && printf '%s ' {{VALUE}} )`, value)).toEqual(words)
    expect(existsSync(join(shell.dir, 'fell'))).toBe(false)
  })

  it('keeps a value one word where the line has patterns of its own, and says so', () => {
    const { command, split, notes } = eggStartup('quarry *.jar {{VALUE}}', new Map())
    expect([split, notes]).toEqual([[], ['uses patterns for file names, so that each placeholder stays one word']])
    expect(ours(command, { VALUE: 'a *' })).toEqual(['fell.jar', 'a *'])
  })

  it('says where values can become code, or another shell is needed', () => {
    expect(eggStartup('eval "quarry {{VALUE}}"', new Map()).notes[0]).toContain('can become code')
    expect(eggStartup('bash -c "quarry {{VALUE}}"', new Map()).notes[0]).toContain('can become code')
    expect(eggStartup('[[ -f x ]] && quarry', new Map()).notes[0]).toContain('written for bash')
    expect(eggStartup('quarry --port {{server.allocations.default.port}} {{env.VALUE}}', new Map()).command).toBe(
      'quarry --port {{SERVER_PORT | split}} {{VALUE | split}}',
    )
  })
})
