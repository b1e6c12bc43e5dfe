import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { SECURITY_SUMMARIES } from '../src/cli/commands/settings/security-flags.ts'
import { SECRET_SETTINGS, SETTINGS } from '../src/daemon/core/settings.ts'
import { SECURITY_NUMBERS } from '../src/shared/kernel/security-numbers.ts'

const page = readFileSync(join(import.meta.dirname, '../docs/settings.md'), 'utf8')
/** The rows of the page's tables, by the key in the first cell. */
const rows = new Map(
  [...page.matchAll(/^\| `([\w.]+)` \|(.*)\|$/gm)].map(([, key = '', rest = '']) => [
    key,
    rest.split(' | ').map((cell) => cell.trim()),
  ]),
)
/** Sections that only the daemon itself writes. */
const keys = Object.entries(SETTINGS).filter(([key]) => !/^(setup|install)\./.test(key))

it('docs/settings.md has a row for each setting and none for anything else', () => {
  expect([...rows.keys()].sort()).toEqual(keys.map(([key]) => key).sort())
})

it.each(keys)('docs/settings.md tells the variable, default and effect of %s', (key, schema) => {
  const [variable, standard, effect = ''] = rows.get(key) ?? []
  const name = `PANEL_${key.replace('.', '__').replace(/[A-Z]/g, '_$&').toUpperCase()}`
  const secret = SECRET_SETTINGS.some((one) => one === key)
  expect(variable).toBe(secret ? `\`${name}\`, \`${name}_FILE\`` : `\`${name}\``)
  expect(standard).toBe(`\`${JSON.stringify(schema.parse(undefined))}\``)
  expect(effect.length).toBeGreaterThan(5)
  const number = Object.entries(SECURITY_NUMBERS).find(([, row]) => row.key === key)
  if (number === undefined) return
  const [field, { min, max }] = number
  const summary = SECURITY_SUMMARIES[field as keyof typeof SECURITY_SUMMARIES] // a key of the same table
  expect(effect).toBe(`\`${field}\`, ${min} to ${max}: ${summary}`)
})
