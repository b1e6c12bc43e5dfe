/** Larger files are not read. */
export const MOST_CONFIG_BYTES = 64 * 1024 * 1024

/** A file that cannot be brought up to date; the message is the end of a sentence about it, as in `is not valid JSON: …`. */
export class ConfigFileProblem extends Error {
  override readonly name = 'ConfigFileProblem'
}
