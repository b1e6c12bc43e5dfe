import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AgentFailure } from '../../src/agent/failure.ts'
import { serverEnvironment, startupCommand } from '../../src/agent/server/environment.ts'
import { findShell, withoutShell } from '../../src/agent/server/shell.ts'
import { importEgg } from '../../src/shared/templates/egg-import.ts'
import { gameSpec } from '../agent/agent-stage.ts'
import { skippedUnless } from '../skips.ts'
import { type GameShell, openGameShell } from './game-shell.ts'

const HOSTILE: readonly string[] = [
  '; touch fell',
  '&& touch fell',
  '|| touch fell',
  '| touch fell',
  '& touch fell &',
  '$(touch fell)',
  '`touch fell`',
  '\ntouch fell\n',
  'a\ntouch fell\n#',
  'a\r\ntouch fell',
  '"; touch fell; "',
  "'; touch fell; '",
  `'"; touch fell; "'`,
  '\\"; touch fell; \\"',
  '\\',
  '\\\n; touch fell',
  '> fell',
  '>> fell 2>&1',
  '<(touch fell)',
  '$(<fell.jar)',
  '\u0024{HOME}',
  '\u0024{X:=$(touch fell)}',
  '$((1+1))',
  '$HOME $PATH $0 $?',
  "$'\\x3b touch fell'",
  '!!',
  '~ ~root',
  '*',
  '/etc/pass* [a-z]* ?',
  '{a,b} {1..3}',
  '#comment',
  'EOF\ntouch fell\nEOF',
  ') ; touch fell ; (',
  '}} ; touch fell ; {{',
  '{{SERVER_PORT}} {{VALUE}}',
  '-n --help',
  '%s%n%d',
  ' leading, trailing\t',
  'x'.repeat(4000),
  'Grüße 日本 😀',
]
const SHELLS = ['/bin/sh', '/bin/bash'] as const
/** Every place that a value can have in a line. */
const LINE = [
  'X={{VALUE}};',
  'quarry {{VALUE}} "{{VALUE}}" --name={{VALUE}} a"{{VALUE}}"b "$X"',
  `"$(printf '%s|' {{VALUE}})" "$(printf '%s|' "{{VALUE}}")" split {{VALUE | split}} end`,
].join(' ')

describe('a value of a variable', () => {
  let shell: GameShell
  beforeAll(() => {
    shell = openGameShell(['quarry'], ['fell.jar', 'a', 'b'])
  })
  afterAll(() => shell.close())

  it.each(SHELLS)('is one word and never code, whatever it is and wherever it stands: %s', (program) => {
    expect(HOSTILE.length).toBeGreaterThanOrEqual(20)
    for (const value of HOSTILE) {
      const spec = gameSpec('srv_hostile', 1, { startup: LINE, env: { VALUE: value } })
      const words = value.split(/[ \t\n]+/).filter((word) => word !== '')
      const args = shell.argumentsOf(startupCommand(spec), serverEnvironment(spec, shell.dir), program)
      const places = [value, value, `--name=${value}`, `a${value}b`, value, `${value}|`, `${value}|`]
      expect([value, args]).toEqual([value, [...places, 'split', ...words, 'end']])
      expect(existsSync(join(shell.dir, 'fell')), value).toBe(false)
    }
  })

  it('of an egg that leaves it unquoted is split at blanks, and is no code either', () => {
    const egg = {
      meta: { version: 'PTDL_v2' },
      name: 'Quarry',
      docker_images: { only: 'registry.example/quarry:1' },
      startup: 'quarry {{VALUE}} \\"{{VALUE}}\\" $( [ "{{VALUE}}" == "" ] || printf "%s " last ) end',
      config: { files: '{}', startup: '{}', logs: '{}', stop: 'stop' },
      scripts: { installation: {} },
      variables: [{ env_variable: 'VALUE', rules: 'string' }],
    }
    const { template } = importEgg(egg)
    expect(template.shell).toBe('bash')
    for (const value of HOSTILE) {
      const spec = gameSpec('srv_hostile', 1, { startup: template.startup, env: { VALUE: value } })
      const words = value.split(/[ \t\n]+/).filter((word) => word !== '')
      const args = shell.argumentsOf(startupCommand(spec), serverEnvironment(spec, shell.dir))
      expect([value, args]).toEqual([value, [...words, value, 'last', 'end']])
      expect(existsSync(join(shell.dir, 'fell')), value).toBe(false)
    }
  })
})

describe('the shell of a line or script', () => {
  let dir: string
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'panel-shells-'))
    for (const [folder, names] of Object.entries({
      debian: ['sh', 'bash'],
      alpine: ['sh', 'ash'],
      bare: ['sh'],
      none: [],
    })) {
      await mkdir(join(dir, folder))
      for (const name of names) {
        await writeFile(join(dir, folder, name), '#!/bin/sh\n')
        await chmod(join(dir, folder, name), 0o755)
      }
    }
    await writeFile(join(dir, 'none', 'bash'), 'no program\n')
  })
  afterAll(() => rm(dir, { recursive: true }))

  const PURPOSE = 'The startup line'
  const found = async (name: string, ...folders: string[]): Promise<string> => {
    const path = folders.map((folder) => join(dir, folder)).join(':')
    const use = { runtime: 'process', purpose: PURPOSE, path } as const
    return (await findShell(name, use)).replace(`${dir}/`, '')
  }

  it('is the first of its name in the PATH of servers', async () => {
    expect(await found('bash', 'none', 'debian')).toBe('debian/bash')
    expect(await found('sh', 'bare', 'debian')).toBe('bare/sh')
    expect(await found(join(dir, 'debian', 'bash'), 'none')).toBe('debian/bash')
  })

  it('is ash where it is, and else sh, which is the same to its scripts', async () => {
    expect(await found('ash', 'debian', 'alpine')).toBe('alpine/ash')
    expect(await found('ash', 'debian')).toBe('debian/sh')
    expect(await found('/bin/ash', 'bare')).toBe('bare/sh')
  })

  it('is never another one: without bash a line for it is refused, with what to do', async () => {
    for (const name of ['bash', join(dir, 'bare', 'bash'), join(dir, 'none', 'bash')]) {
      await expect(found(name, 'none', 'bare')).rejects.toMatchObject({
        code: 'UNSUPPORTED',
        message:
          'The startup line is written for bash, which this node does not have: install bash there, or change the template',
      })
    }
  })

  it('of a container is looked for by its engine, whose refusal becomes the same sentence', async () => {
    const use = { runtime: 'docker', purpose: 'The installation', path: join(dir, 'none') } as const
    expect(await findShell('sh', use)).toBe('/bin/sh')
    expect(await findShell('bash', use)).toBe('bash')
    const about = { shell: 'bash', image: 'registry.example/alpine:3', purpose: 'The installation' }
    const refusals = [
      'OCI runtime create failed: exec: "bash": executable file not found in $PATH: unknown',
      'crun: executable file `bash` not found in $PATH: No such file or directory',
    ]
    for (const text of refusals) {
      expect(withoutShell(new AgentFailure('SPAWN_FAILED', text), about)).toMatchObject({
        code: 'UNSUPPORTED',
        message:
          'The installation is written for bash, which the image registry.example/alpine:3 does not have: choose another image, ' +
          'or change the template',
      })
    }
    const other = new AgentFailure('SPAWN_FAILED', 'no such file or directory: /srv/maps')
    expect(withoutShell(other, about)).toBe(other)
    const foreign = new TypeError('bash not found in $PATH')
    expect(withoutShell(foreign, about)).toBe(foreign)
  })
})

const BUSYBOX = existsSync('/bin/busybox')

it.skipIf(!BUSYBOX)(`values are one word in ash too${skippedUnless(BUSYBOX, 'busybox')}`, async () => {
  const shell = openGameShell(['quarry'], ['fell.jar'])
  try {
    const ash = join(shell.dir, 'bin', 'ash')
    await writeFile(ash, '#!/bin/sh\nexec /bin/busybox ash "$@"\n')
    await chmod(ash, 0o755)
    for (const value of HOSTILE) {
      const spec = gameSpec('srv_hostile', 1, { startup: 'quarry {{VALUE}} "{{VALUE}}"', env: { VALUE: value } })
      const args = shell.argumentsOf(startupCommand(spec), serverEnvironment(spec, shell.dir), ash)
      expect(args).toEqual([value, value])
      expect(existsSync(join(shell.dir, 'fell')), value).toBe(false)
    }
  } finally {
    shell.close()
  }
})
