/** What stands where something was typed that may be secret. */
const MASKED = '********'
/** So much of a line is kept. */
const MOST_CHARS = 256
/** Words that show that what follows them is secret, in commands (`login`, `sv_password`) and names of values (`token=x`). */
const SECRET_WORD =
  /pass|pwd|secret|token|login|logon|register|credential|auth|apikey|api[-_]key|(?:^|[-_./])(?:pw|pin|otp|key)(?:$|[-_])/i
/** A word, and a value that stands with its name. */
const NAMED_VALUE = /^([^=:]{1,100}[=:]).+$/

/**
 * A typed line as the audit log keeps it: what follows such a word is masked to the end of the line, whatever the game
 * makes of it. Many games have a password typed as an argument; none says which command that is.
 */
export function typedCommand(text: string): string {
  const line = text.slice(0, MOST_CHARS)
  for (const { 0: word, index } of line.matchAll(/\S+/g)) {
    if (!SECRET_WORD.test(word)) continue
    const name = NAMED_VALUE.exec(word)?.[1]
    const rest = line.slice(index + word.length).trim() === '' ? '' : ` ${MASKED}`
    return line.slice(0, index) + (name === undefined ? word : `${name}${MASKED}`) + rest
  }
  return line
}
