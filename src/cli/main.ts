import { writeSync } from 'node:fs'
import type { Roles } from './roles.ts'
import { VERSION } from './version.ts'

/** Runs a command line and ends the process with its exit code. */
export async function runCli(argv: readonly string[], roles: Roles): Promise<void> {
  const answer = isVersion(argv) ? `${VERSION}\n` : await plainHelp(argv)
  if (answer !== undefined) return print(answer)
  const { invoke } = await import('./kit/invoke.ts')
  await invoke(argv, roles)
}

function isVersion([word, ...rest]: readonly string[]): boolean {
  return (word === '--version' || word === '-V') && rest.length === 0
}

/**
 * The help that is asked for in one of the plain ways: `--help` or `-h` behind the name of a command, `help` before it, or
 * nothing at all. All other ways go by the tree of commands, which takes longer to load than this takes altogether.
 */
async function plainHelp(argv: readonly string[]): Promise<string | undefined> {
  const isBehind = ['--help', '-h'].includes(argv.at(-1) ?? '--help')
  if (!isBehind && argv[0] !== 'help') return undefined
  const words = isBehind ? argv.slice(0, -1) : argv.slice(1)
  const { pages } = await import('./kit/help-pages.ts')
  return words.some((word) => word.includes(' ')) ? undefined : pages.get(words.join(' '))
}

/** Writes without the stream of stdout, whose modules are more than all that was loaded until here. */
function print(text: string): void {
  let rest: Uint8Array = Buffer.from(text)
  try {
    while (rest.length > 0) rest = rest.subarray(writeSync(1, rest))
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined
    // A pipe that is full and does not wait.
    if (code === 'EAGAIN') process.stdout.write(rest)
    // Nobody reads any more, as in `panel --help | head -1`.
    else if (code !== 'EPIPE' && code !== 'EIO') {
      process.stderr.write(`panel: stdout cannot be written (${code})\n`)
      process.exitCode = code === 'ENOSPC' || code === 'EDQUOT' ? 14 : 2
    }
  }
}
