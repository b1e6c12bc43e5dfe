import { placeholderVariable } from '../kernel/placeholders.ts'
import { readStartupLine, type StartupLine } from '../kernel/startup-line.ts'
import type { ShellName } from '../protocol/server-spec.ts'

/** The startup line of an egg in our words, and what was done to it. */
export interface EggLine {
  readonly command: string
  /** All variables that it names. */
  readonly variables: readonly string[]
  /** Variables that are split at blanks. */
  readonly split: readonly string[]
  readonly notes: readonly string[]
  /** `bash`: the line has what only that knows. */
  readonly shell: ShellName
}

/**
 * The startup line of an egg. Its panels put values into the text and have the container's shell read it, so that an unquoted
 * value is several words, or none: such placeholders become `{{NAME | split}}`. Most images read the line twice; quotes that
 * are escaped for the second time become quotes. Throws a StartupLineProblem for a line that cannot be followed.
 */
export function eggStartup(text: string, renamed: ReadonlyMap<string, string>): EggLine {
  const command = withQuotes(text.replace(/\r\n?/g, '\n'))
  const line = readStartupLine(command.text)
  const split = new Set<string>()
  const variables = new Set<string>()
  const marked = replaced(
    command.text,
    line.placeholders.map(({ at, length, name, place }) => {
      const known = placeholderVariable(name)
      const variable = renamed.get(known) ?? known
      variables.add(variable)
      const splits = place === 'words' && !line.hasFilePattern
      if (splits) split.add(variable)
      return { at, length, by: splits ? `{{${variable} | split}}` : `{{${variable}}}` }
    }),
  )
  const notes = [...(command.changed ? [ESCAPED] : []), ...warnings(text, line)]
  return {
    command: marked,
    variables: [...variables],
    split: [...split],
    notes,
    shell: BASH.test(text) ? 'bash' : 'sh',
  }
}

/** The line as eggs write it: without the marks. */
export function withoutMarks(command: string): string {
  return command.replace(/\{\{([^{}|]{1,200})\|\s*split\s*\}\}/g, (_, name: string) => `{{${name.trim()}}}`)
}

const ESCAPED = 'quotes that are escaped for a second reading by the container (\\") are read as quotes'
const QUOTED =
  'has a placeholder in single quotes, where a program gets its name and no value unless it is a shell: put it into double quotes'
const PATTERNS = 'uses patterns for file names, so that each placeholder stays one word'
const CODE = 'hands text to eval or another shell: values of variables can become code there'
const NEEDS_BASH = 'is written for bash, and is run by it: the image must have it'
/** What other shells do not know: `[[`, `==`, `<<<`, `<( )`, `&>`, arrays, `${a//b/c}`, `${a^^}`, `${!a}`, `function`, `source`, `disown`. */
const BASH =
  /\[\[\s|\s==\s|<<<|[<>]\(|&>|\w\+?=\(|\$\{!|\$\{\w+(?:\/|\^|,|:\d|:\s-|\[)|\$\{#?\w+\[|\bfunction\s|\bsource\s|\bdisown\b|\bshopt\s|\bdeclare\s/

function warnings(text: string, line: StartupLine): string[] {
  const found: string[] = []
  if (line.hasFilePattern && line.placeholders.some(({ place }) => place === 'words')) found.push(PATTERNS)
  if (/\beval\s|\b(?:ba|da)?sh\s+-[a-z]{0,3}c\s/.test(text)) found.push(CODE)
  if (line.hasQuotedPlaceholder) found.push(QUOTED)
  if (BASH.test(text)) found.push(NEEDS_BASH)
  return found
}

/**
 * Among words an escaped quote is a quote of the second reading. Inside a quoted text that a command substitution prints, it is
 * one as well; there it goes, since what a substitution prints is split and keeps its quotes.
 */
function withQuotes(text: string): { readonly text: string; readonly changed: boolean } {
  const { escapedQuotes } = readStartupLine(text)
  const changes = escapedQuotes.flatMap(({ at, length, place, substituted }) => {
    if (place === 'words' && !substituted) return [{ at, length, by: '"' }]
    return place === 'quotes' && substituted ? [{ at, length, by: '' }] : []
  })
  return { text: replaced(text, changes), changed: changes.length > 0 }
}

function replaced(
  text: string,
  changes: readonly { readonly at: number; readonly length: number; readonly by: string }[],
): string {
  let out = ''
  let from = 0
  for (const { at, length, by } of changes) {
    out += text.slice(from, at) + by
    from = at + length
  }
  return out + text.slice(from)
}
