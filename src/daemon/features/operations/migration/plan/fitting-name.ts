/** A name as this panel takes it: one line, in which paths and marks of pages have no place. */
export function fittingName(name: string): string {
  return name.replace(/[/\\<>\ufffd]|[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '_').trim() || '_'
}
