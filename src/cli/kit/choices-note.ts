/** What may be given, in brackets; nothing where the summary lists it already. */
export function choicesNote(summary: string, choices: readonly string[] | undefined): string {
  if (choices === undefined) return ''
  const listed = choices.join(', ')
  const said = [listed, `${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}`].some((list) =>
    summary.includes(list),
  )
  return said ? '' : ` (${listed})`
}
