import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { DIST, runPanel } from '../run-panel.ts'
import { skippedUnless } from '../skips.ts'

let home: string
beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'panel-completion-'))
  await writeFile(
    join(home, 'panel'),
    `#!/bin/sh\nexec '${process.execPath}' '${join(DIST, 'bin', 'panel.js')}' "$@"\n`,
  )
  await chmod(join(home, 'panel'), 0o755)
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, stdout } = await runPanel(['completion', shell])
    expect(code).toBe(0)
    await writeFile(join(home, shell), stdout)
  }
})
afterAll(() => rm(home, { recursive: true }))

/** What is typed: the line, and the part of it that the shell puts its own in the place of. */
interface Typed {
  readonly line: string
  readonly part: string
}

/** How each shell is asked for what may follow. */
const SHELLS: Readonly<Record<string, (typed: Typed) => string[]>> = {
  bash: ({ line, part }) => [
    '-c',
    `source ~/bash; COMP_LINE=$1; COMP_POINT=\${#1}; _panel panel "$2"; printf '%s\\n' "\${COMPREPLY[@]}"`,
    '-',
    line,
    part,
  ],
  // Outside its line editor zsh has no list to fill: what would fill it says what it was given.
  zsh: ({ line }) => [
    '-fc',
    `compdef() { : }; _describe() { local it; for it in "\${(@P)2}"; do it=\${it//\\\\:/|}; print -r -- "\${\${it%%:*}//|/:}"; done }
     _files() { print -l -- $words[-1]*(N) }
     source ~/zsh; words=(\${(z)1}); [[ $1 == *' ' && $1 != *'\\ ' ]] && words+=(''); CURRENT=$#words; PREFIX=$words[-1]
     typeset -A compstate
     case $PREFIX in [\\"\\']*) compstate[quote]=$PREFIX[1]; PREFIX=\${PREFIX#?} ;; esac
     _panel`,
    '-',
    line,
  ],
  fish: ({ line }) => ['--no-config', '-c', 'source ~/fish; complete -C $argv[1]', line],
}

function isInstalled(shell: string): boolean {
  try {
    execFileSync(shell, ['--version'])
    return true
  } catch {
    return false // then its tests are skipped
  }
}

describe.each(Object.keys(SHELLS))('completion in %s (skipped where it is not installed)', (shell) => {
  const asked = (typed: Typed): string[] => {
    const env = { HOME: home, PATH: `${home}:${process.env['PATH']}`, LANG: 'C.UTF-8' }
    const text = execFileSync(shell, SHELLS[shell]?.(typed) ?? [], { env, cwd: home, encoding: 'utf8' })
    return text.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0] ?? '']))
  }
  const offered = (...words: string[]): string[] =>
    asked({ line: ['panel', ...words].join(' '), part: words.at(-1) ?? '' })

  it.skipIf(!isInstalled(shell))(
    `offers commands, flags, their words, and files${skippedUnless(isInstalled(shell), shell)}`,
    () => {
      expect(offered('servers', 'sto')).toEqual(['stop'])
      expect(offered('servers', 'power', '')).toEqual(['start', 'stop', 'restart', 'kill'])
      expect(offered('servers', 'list', '--sta')).toEqual(['--state'])
      expect(offered('servers', 'list', '--state', 'run')).toEqual(['running'])
      // Where the panel has no word to offer, bash itself names files.
      if (shell !== 'bash') expect(offered('templates', 'create', '-F', `${home}/pan`)).toEqual([`${home}/panel`])
    },
  )

  it.skipIf(!isInstalled(shell))(
    `goes on with names that are quoted, and runs nothing in them${skippedUnless(isInstalled(shell), shell)}`,
    async () => {
      const names = ['a b one', 'a b two', `it's "x"`, `$(touch ${home}/ran)`, 'x:1', 'x:2', 'new\nline']
      const contexts = Object.fromEntries(names.map((name) => [name, { url: 'http://127.0.0.1:1' }]))
      await mkdir(join(home, '.config', 'panel'), { recursive: true })
      await writeFile(join(home, '.config', 'panel', 'cli.yaml'), JSON.stringify({ contexts }))
      const given = (typed: string, part = typed): string[] =>
        asked({ line: `panel servers list --context ${typed}`, part }).sort()
      // Bash takes what is offered as it stands; the others quote it themselves.
      const forBash = (words: string[]) => (shell === 'bash' ? words : undefined)
      expect(given('a\\ b\\ ')).toEqual(forBash(['a\\ b\\ one', 'a\\ b\\ two']) ?? ['a b one', 'a b two'])
      expect(given('"a b t', 'a b t')).toEqual(['a b two'])
      expect(given("it\\'")).toEqual(forBash(['it\\\'s\\ \\"x\\"']) ?? [`it's "x"`])
      expect(given("'it'\\''", "it'\\''")).toEqual(forBash([`it'\\''s "x"`]) ?? [`it's "x"`])
      expect(given('"it\'', "it'")).toEqual(forBash([`it's \\"x\\"`]) ?? [`it's "x"`])
      expect(given('\\$')).toHaveLength(1)
      expect(given("'$(t", '$(t')).toEqual([`$(touch ${home}/ran)`])
      expect(given('"\\$', '\\$')).toEqual(forBash([`\\$(touch ${home}/ran)`]) ?? [`$(touch ${home}/ran)`])
      expect(given('x:', '')).toEqual(forBash(['1', '2']) ?? ['x:1', 'x:2'])
      expect(given('new')).toEqual([])
      expect(existsSync(join(home, 'ran'))).toBe(false)
    },
  )
})
