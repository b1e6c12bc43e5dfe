import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** A folder of a server whose programs only write down the arguments that they get. */
export interface GameShell {
  readonly dir: string
  /** The arguments that the game gets when this shell runs this line. */
  argumentsOf(line: string, env: Readonly<Record<string, string>>, shell?: string): string[]
  close(): void
}

/** Makes such a folder; the programs are in its PATH, and in the folder itself. */
export function openGameShell(programs: readonly string[], files: readonly string[] = []): GameShell {
  const dir = mkdtempSync(join(tmpdir(), 'panel-egg-lines-'))
  mkdirSync(join(dir, 'bin'))
  for (const name of files) writeFileSync(join(dir, name), '')
  const program = '#!/bin/bash\nprintf \'%s\\0\' "$@" > "$(dirname "$0")/said"\n'
  const places = programs.flatMap((name) => [join(dir, 'bin', name), join(dir, name)])
  for (const path of places) {
    writeFileSync(path, program)
    chmodSync(path, 0o755)
  }
  const answers = [join(dir, 'said'), join(dir, 'bin/said')]
  return {
    dir,
    argumentsOf: (line, env, shell = '/bin/bash') => {
      for (const said of answers) rmSync(said, { force: true })
      execFileSync(shell, ['-c', line], {
        env: { ...env, PATH: `${dir}/bin:/usr/bin:/bin` },
        cwd: dir,
        stdio: 'pipe',
      })
      const said = answers.find((path) => existsSync(path)) ?? ''
      return readFileSync(said, 'utf8').split('\0').slice(0, -1)
    },
    close: () => rmSync(dir, { recursive: true, force: true }),
  }
}
