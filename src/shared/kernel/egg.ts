const MAKERS: Readonly<Record<string, string>> = { PTDL: 'Pterodactyl', PLCN: 'Pelican' }

/** What a file is that was made for another panel, as the end of a sentence; `undefined`: it is not known to be one. */
export function eggRefusal(body: unknown): string | undefined {
  const fields = fieldsOf(body)
  const version = fieldsOf(fields['meta'])['version']
  const [, maker, number] = typeof version === 'string' ? (/^(PTDL|PLCN)_(v\d{1,3})$/i.exec(version) ?? []) : []
  const { config, scripts } = fields
  // Older exports, and those that were edited, tell no version.
  const looksLikeOne =
    Object.hasOwn(fieldsOf(scripts), 'installation') &&
    ['files', 'startup', 'stop', 'logs'].some((name) => Object.hasOwn(fieldsOf(config), name))
  if (maker === undefined && !looksLikeOne) return undefined
  const kind = maker === undefined ? 'Pterodactyl or Pelican' : `${MAKERS[maker.toUpperCase()]}`
  const told = maker === undefined ? '' : ` (${maker.toUpperCase()}_${number})`
  return (
    `is a ${kind} egg${told} and not a template of this panel: eggs cannot be imported yet; write the template by hand, ` +
    'as docs/examples/templates show'
  )
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
