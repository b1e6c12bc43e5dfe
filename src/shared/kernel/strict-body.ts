import { z } from 'zod'

/**
 * The same schema, in which every object refuses fields that it does not name, at any depth. An object that says itself what
 * becomes of other fields (`z.looseObject`, `catchall`) keeps that: it is for bodies that programs write.
 */
export function strictBody<T extends z.ZodType>(schema: T): T {
  return strict(schema) as T // the kind stays; only what else an object may hold is said
}

function strict(schema: z.core.$ZodType): z.core.$ZodType {
  if (schema instanceof z.ZodObject) {
    const shape = Object.fromEntries(Object.entries(schema.shape).map(([key, field]) => [key, strict(field)]))
    const catchall = schema.def.catchall ?? z.never()
    return z.core.clone(schema, { ...schema.def, shape, catchall })
  }
  if (schema instanceof z.ZodArray) return z.core.clone(schema, { ...schema.def, element: strict(schema.def.element) })
  if (schema instanceof z.ZodRecord)
    return z.core.clone(schema, { ...schema.def, valueType: strict(schema.def.valueType) })
  if (schema instanceof z.ZodUnion) {
    return z.core.clone(schema, { ...schema.def, options: schema.def.options.map(strict) })
  }
  if (schema instanceof z.ZodPipe) return z.core.clone(schema, { ...schema.def, in: strict(schema.def.in) })
  if (
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodPrefault
  ) {
    return z.core.clone(schema, { ...schema.def, innerType: strict(schema.def.innerType) })
  }
  return schema
}

/** The body without fields that are accepted and mean nothing, by their dotted paths; all else is as it was. */
export function withoutIgnored(body: unknown, paths: readonly string[]): unknown {
  return paths.reduce((rest, path) => without(rest, path.split('.')), body)
}

function without(value: unknown, [name = '', ...deeper]: readonly string[]): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || !Object.hasOwn(value, name)) return value
  const fields = Object.entries(value)
  if (deeper.length === 0) return Object.fromEntries(fields.filter(([key]) => key !== name))
  return Object.fromEntries(fields.map(([key, one]) => [key, key === name ? without(one, deeper) : one]))
}
