import { execFileSync } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
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

/** How each shell is asked for what may follow some words; the last of them is begun or empty. */
const SHELLS: Readonly<Record<string, (words: readonly string[]) => string[]>> = {
  bash: (words) => [
    '-c',
    `source ~/bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _panel; printf '%s\\n' "\${COMPREPLY[@]}"`,
    '-',
    ...words,
  ],
  // Outside its line editor zsh has no list to fill: what would fill it says what it was given.
  zsh: (words) => [
    '-fc',
    `compdef() { : }; _describe() { print -l -- "\${(@P)2%%:*}" }; _files() { print -l -- $words[-1]*(N) }
     source ~/zsh; words=("$@"); CURRENT=$#; _panel`,
    '-',
    ...words,
  ],
  fish: (words) => ['--no-config', '-c', 'source ~/fish; complete -C (string join " " -- $argv)', ...words],
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
  const offered = (...words: string[]): string[] => {
    const args = SHELLS[shell]?.(['panel', ...words]) ?? []
    const env = { HOME: home, PATH: `${home}:${process.env['PATH']}` }
    const text = execFileSync(shell, args, { env, cwd: home, encoding: 'utf8' })
    return text.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0] ?? '']))
  }

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
})
