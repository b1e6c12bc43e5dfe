/** Whether a word is a whole id of our own making, such as `srv_` and 26 characters. */
export function isAnId(word: string, prefix: string): boolean {
  return word.startsWith(`${prefix}_`) && /^[0-9a-hjkmnp-tv-z]{26}$/.test(word.slice(prefix.length + 1))
}

/** Fewer characters are no id that somebody shortened, but a slip. */
const LEAST = 4

/** Whether a word is the beginning of an id, with or without its prefix, and says more than the kind: `srv_01k4` or `01k4`. */
export function beginsId(id: string, prefix: string, word: string): boolean {
  const typed = word.startsWith(`${prefix}_`) ? word.slice(prefix.length + 1) : word
  return typed.length >= LEAST && id.startsWith(`${prefix}_${typed}`)
}
