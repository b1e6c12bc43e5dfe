import { isDeepStrictEqual } from 'node:util'
import type { NewTemplate } from '../../../shared/api/template-fields.ts'
import { column, type View } from '../../kit/output/view.ts'

/** A field in which two templates are not the same. */
export interface DifferenceRow {
  readonly field: string
  readonly from: unknown
  readonly to: unknown
}

/** How differences are shown. */
export const DIFFERENCES: View<DifferenceRow> = {
  columns: [
    column('FIELD', (row) => row.field),
    column('FROM', (row) => shown(row.from)),
    column('TO', (row) => shown(row.to)),
  ],
  id: (row) => row.field,
  name: (row) => row.field,
}

/** The fields in which two templates are not the same. Variables and files count by their names: another order is no difference. */
export function differences(from: NewTemplate, to: NewTemplate): DifferenceRow[] {
  const [before, after] = [fieldsOf(from), fieldsOf(to)]
  const names = [...new Set([...before.keys(), ...after.keys()])]
  return names.flatMap((field): DifferenceRow[] => {
    const [a, b] = [before.get(field) ?? null, after.get(field) ?? null]
    return isDeepStrictEqual(a, b) ? [] : [{ field, from: a, to: b }]
  })
}

function fieldsOf({ variables, configFiles, ...rest }: NewTemplate): Map<string, unknown> {
  return new Map<string, unknown>([
    ...Object.entries(rest),
    ...variables.flatMap(({ name, ...variable }) => {
      return Object.entries(variable).map(([field, value]) => [`variables.${name}.${field}`, value] as const)
    }),
    ...configFiles.map((file) => [`configFiles.${file.path}`, file] as const),
  ])
}

/** A value as a cell. */
export function shown(value: unknown): string | number | boolean | null {
  if (value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean')
    return value
  return JSON.stringify(value)
}
