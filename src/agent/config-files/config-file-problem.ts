/** Larger files are not read. */
export const MOST_CONFIG_BYTES = 64 * 1024 * 1024

/** How deep objects, lists and elements of a file may lie in each other. */
export const MOST_CONFIG_DEPTH = 256

/** A file that cannot be brought up to date; the message is the end of a sentence about it, as in `is not valid JSON: …`. */
export class ConfigFileProblem extends Error {
  override readonly name = 'ConfigFileProblem'
}

/** Programs end a text at the character NUL, or take the whole file for no text. */
export function refuseNul(text: string, key: string): void {
  if (text.includes('\0')) throw new ConfigFileProblem(`cannot hold the character NUL at ${key}`)
}
