/** Whether a word is a whole id of our own making, such as `srv_` and 26 characters. */
export function isAnId(word: string, prefix: string): boolean {
  return word.startsWith(`${prefix}_`) && /^[0-9a-hjkmnp-tv-z]{26}$/.test(word.slice(prefix.length + 1))
}
