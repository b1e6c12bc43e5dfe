import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { choicesNote } from './kit/choices-note.ts'
import { type Command, type Noun, type Option, walk } from './kit/command.ts'
import { GLOBAL_FLAGS } from './kit/flags.ts'
import { tree } from './whole-tree.ts'

/** Writes `panel.1` and `panel-<noun>.1` in mdoc: `node dist/src/cli/man.js man/`. The date is that of the release. */
export async function writeManPages(folder: string, date: string): Promise<readonly string[]> {
  await mkdir(folder, { recursive: true })
  const pages = new Map<string, string>([['panel.1', rootPage(date)]])
  for (const node of tree) {
    if (node.kind === 'command' && node.hidden === true) continue
    pages.set(`panel-${node.name}.1`, nodePage(node, date))
  }
  for (const [name, text] of pages) await writeFile(join(folder, name), text)
  return [...pages.keys()]
}

function rootPage(date: string): string {
  const visible = tree.filter((node) => !(node.kind === 'command' && node.hidden === true))
  return [
    ...head('panel', 'run and administrate game servers', date),
    '.Sh SYNOPSIS',
    '.Nm',
    '.Ar command',
    '.Op Ar arguments',
    '.Op Ar flags',
    '.Sh DESCRIPTION',
    '.Nm',
    'runs game servers: it is the panel itself, its node agents, and the commands for both.',
    'The commands, each with a page of its own:',
    '.Bl -tag -width Ds',
    ...visible.flatMap((node) => [`.It Xr panel-${node.name} 1`, sentence(node.summary)]),
    '.El',
    '.Ss Flags of every command',
    ...optionList(GLOBAL_FLAGS),
    '.Sh ENVIRONMENT',
    '.Bl -tag -width Ds',
    ...ENVIRONMENT.flatMap(([name, text]) => [`.It Ev ${name}`, sentence(text)]),
    '.El',
    '.Sh FILES',
    '.Bl -tag -width Ds',
    '.It Pa ~/.config/panel/cli.yaml',
    'The contexts: which panels are known, and which is in force.',
    '.It Pa ~/.config/panel/credentials.yaml',
    'Their credentials, readable by the owner only.',
    '.El',
    '.Sh EXIT STATUS',
    '.Bl -tag -width Ds',
    ...EXITS.flatMap(([code, text]) => [`.It ${code}`, sentence(text)]),
    '.El',
    '.Sh EXAMPLES',
    ...examples(['panel up', 'panel servers list', 'panel console attach demo']),
    '',
  ].join('\n')
}

function nodePage(node: Command | Noun, date: string): string {
  const name = `panel-${node.name}`
  const all = node.kind === 'command' ? [{ path: [node.name], command: node }] : [...walk(node.children, [node.name])]
  const shown = all.filter(({ command }) => command.hidden !== true)
  return [
    ...head(name, lowerFirst(node.summary), date),
    '.Sh SYNOPSIS',
    ...shown.flatMap(({ path, command }) => synopsis(path, command)),
    '.Sh DESCRIPTION',
    sentence(node.summary),
    'The flags of every command are described in',
    '.Xr panel 1 .',
    ...shown.flatMap(({ path, command }) => section(path, command, node.kind === 'noun')),
    '.Sh SEE ALSO',
    '.Xr panel 1',
    '',
  ].join('\n')
}

function synopsis(path: readonly string[], command: Command): string[] {
  const words = (command.arguments ?? []).map(({ name, many, optional }) => {
    const text = `Ar ${name}${many === true ? ' ...' : ''}`
    return `.${optional === true ? `Op ${text}` : text}`
  })
  return [`.Nm panel`, `.Cm ${path.join(' ')}`, ...words, '.Op Ar flags']
}

function section(path: readonly string[], command: Command, titled: boolean): string[] {
  const words = command.arguments ?? []
  const options = command.options ?? []
  return [
    ...(titled ? [`.Ss ${path.join(' ')}`, sentence(command.summary)] : []),
    ...(command.details === undefined ? [] : ['.Pp', ...sentences(command.details)]),
    ...(words.length + options.length === 0 ? [] : ['.Bl -tag -width Ds']),
    ...words.flatMap(({ name, summary, choices }) => [
      `.It Ar ${name}`,
      sentence(`${summary}${choicesNote(summary, choices)}`),
    ]),
    ...options.flatMap(optionItem),
    ...(words.length + options.length === 0 ? [] : ['.El']),
    '.Pp',
    'Examples:',
    ...examples(command.examples),
    ...((command.exits ?? []).length === 0
      ? []
      : ['.Pp', `Exit codes beside the usual ones: ${command.exits?.join(', ')}.`]),
  ]
}

function head(name: string, summary: string, date: string): string[] {
  return [
    `.\\" Made from the declarations of the commands; edits here are lost.`,
    `.Dd ${date}`,
    `.Dt ${name.toUpperCase()} 1`,
    '.Os',
    '.Sh NAME',
    `.Nm ${name}`,
    `.Nd ${roff(summary)}`,
  ]
}

function optionList(options: readonly Option[]): string[] {
  return ['.Bl -tag -width Ds', ...options.flatMap(optionItem), '.El']
}

function optionItem({ flags, summary, required, choices, repeat }: Option): string[] {
  const needed = required === true ? `${summary} (required)` : summary
  const text = `${needed}${choicesNote(needed, choices)}${repeat === true ? '; may be repeated' : ''}`
  return [`.It Cm ${roff(flags).replaceAll('-', '\\-')}`, sentence(text)]
}

function examples(lines: readonly string[]): string[] {
  return ['.Bd -literal -offset indent', ...lines.map(roff), '.Ed']
}

/** A line of text that is no macro; it ends with a full stop. */
function sentence(text: string): string {
  const line = roff(text.charAt(0).toUpperCase() + text.slice(1))
  return /[.!?]$/.test(line) ? line : `${line}.`
}

function sentences(text: string): string[] {
  return text.split(/(?<=[.!?]) (?=[A-Z`])/).map(sentence)
}

function lowerFirst(text: string): string {
  return /^[A-Z][a-z]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text
}

/** roff's own characters, and those outside ASCII, as escapes. */
function roff(text: string): string {
  return text
    .replaceAll('\\', '\\e')
    .replace(/^([.'])/, '\\&$1')
    .replace(
      /[^\u0020-\u007e]/g,
      (char) => `\\[u${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}]`,
    )
}

const ENVIRONMENT: readonly (readonly [string, string])[] = [
  ['PANEL_URL', 'the panel to talk to'],
  ['PANEL_TOKEN', 'the credential; it overrides the stored one and is never stored'],
  ['PANEL_CONTEXT', 'the context to use'],
  ['PANEL_CONFIG_DIR', 'the folder of contexts and credentials'],
  ['PANEL_OUTPUT', 'the output format'],
  ['PANEL_NO_INPUT', 'never ask'],
  ['PANEL_DEBUG', 'trace HTTP on stderr'],
  ['PANEL_NO_COLOR', 'no colours, as NO_COLOR'],
  ['PANEL_PAGER', 'the pager for long text'],
  ['PANEL_SETUP_TOKEN', 'the setup token of a fresh panel'],
  ['PANEL_MIGRATION_KEY', 'the application key of a panel that servers move in from'],
  ['PANEL_MIGRATION_CLIENT_KEY', "an administrator's account key of that panel"],
]

const EXITS: readonly (readonly [number, string])[] = [
  [0, 'success'],
  [1, 'an unexpected failure'],
  [2, 'a wrong command line, a missing agreement, an unreadable local file'],
  [3, 'some targets failed and some did not; of daemon status: stopped'],
  [4, 'not signed in, or the credential has expired'],
  [5, 'not allowed'],
  [6, 'not found'],
  [7, 'a conflict with the present state'],
  [8, 'the panel refused the input'],
  [9, 'throttled or locked out'],
  [10, 'something would be changed; with --detailed-exitcode alone'],
  [11, 'what was ordered failed or was cancelled'],
  [12, 'the node is offline'],
  [13, 'the panel cannot be reached'],
  [14, 'the host lacks something'],
  [15, 'nothing matched'],
  [124, 'the time limit passed'],
  [130, 'ended by SIGINT; 143 by SIGTERM'],
]

if (process.argv[1]?.endsWith('man.js') === true) {
  const pages = await writeManPages(process.argv[2] ?? 'man', process.argv[3] ?? 'November 21, 2026')
  process.stdout.write(`${pages.length} pages\n`)
}
