import type { Roles } from '../roles.ts'
import { treeFor, wholeTree } from '../tree.ts'
import type { Command } from './command.ts'
import { type Environment, readEnvironment } from './environment.ts'
import { namedWords, settleJson, wantsHelp } from './help-request.ts'
import { parse } from './program.ts'
import { reportJson, reportOf, reportText } from './report.ts'
import { createRun } from './run.ts'
import { createTerminal, exit, ReaderGone, type Terminal } from './terminal.ts'

/** Runs a command line and ends the process with its exit code. */
export async function invoke(argv: readonly string[], roles: Roles): Promise<void> {
  const terminal = createTerminal(() => exit(0))
  const env = readEnvironment()
  const code = await attempt(argv, { env, terminal, roles })
  exit(code)
}

interface Surroundings {
  readonly env: Environment
  readonly terminal: Terminal
  readonly roles: Roles
}

async function attempt(argv: readonly string[], around: Surroundings): Promise<number> {
  const { env, terminal, roles } = around
  const stop = new AbortController()
  let signalled: number | undefined
  let known: Command | undefined
  try {
    const tree = await treeFor(namedWords(argv)[0], argv)
    const words = settleJson(tree, argv)
    const help = wantsHelp(tree, words)
    if (help !== undefined) {
      await terminal.write(help)
      return 0
    }
    const invocation = parse(tree, words)
    if (invocation.kind === 'help') {
      await terminal.write(invocation.text)
      return 0
    }
    const { command, path, args } = invocation
    known = command
    if (command.ownsSignals !== true) {
      listenForSignals((code) => {
        if (signalled !== undefined) exit(code)
        signalled = code
        stop.abort()
      })
    }
    if (command.hidden !== true && !args.flag('quiet')) warnOfUnknown(env, terminal)
    const run = createRun({ command, tree: wholeTree, path, args, env, terminal, roles, signal: stop.signal })
    try {
      const action = await command.load()
      const code = (await action(run)) ?? 0
      return signalled ?? code
    } finally {
      await run.close()
    }
  } catch (error) {
    if (error instanceof ReaderGone) return 0
    if (signalled !== undefined) return signalled
    return report(error, { argv, env, terminal, command: known })
  }
}

function listenForSignals(onSignal: (code: number) => void): void {
  process.on('SIGINT', () => onSignal(130))
  process.on('SIGTERM', () => onSignal(143))
}

function warnOfUnknown(env: Environment, terminal: Terminal): void {
  for (const name of env.unknown) terminal.say(`panel: the variable ${name} means nothing here (see panel help flags)`)
}

async function report(
  error: unknown,
  around: {
    readonly argv: readonly string[]
    readonly env: Environment
    readonly terminal: Terminal
    /** What ran; `undefined` when the line was not understood. */
    readonly command: Command | undefined
  },
): Promise<number> {
  const { argv, env, terminal, command } = around
  // @inquirer/prompts rejects so when the person presses Ctrl-C at a question.
  if (error instanceof Error && error.name === 'ExitPromptError') return 130
  const report = reportOf(error)
  terminal.say((wantsMachine(argv, env) ? reportJson(report) : reportText(report, command)).trimEnd())
  if ((env.debug || argv.includes('--debug')) && error instanceof Error) terminal.say(error.stack ?? '')
  return report.exit
}

/** Whether failures are JSON. It looks at the words themselves: the line may be what is wrong. */
function wantsMachine(argv: readonly string[], env: Environment): boolean {
  const formats = ['json', 'jsonl', 'yaml']
  const given = argv.flatMap((word, i) => {
    if (word === '-o' || word === '--output') return [argv[i + 1] ?? '']
    const attached = /^(?:--output=|-o=?)(\w+)$/.exec(word)
    return attached?.[1] === undefined ? [] : [attached[1]]
  })
  if (given.length > 0) return formats.includes(given.at(-1) ?? '')
  if (argv.some((word) => word === '--json' || word.startsWith('--json=') || word.startsWith('--jq'))) return true
  return formats.includes(env.output ?? '')
}
