/** A text as one word of a shell: as it is where nothing in it has a meaning there. */
export function shellWord(text: string): string {
  return /^[\w./:@+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
