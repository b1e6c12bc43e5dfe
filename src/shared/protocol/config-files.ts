import { z } from 'zod'

/** How the text of a configuration file is read and written. `file` knows nothing but lines. */
export const ConfigParser = z.enum(['file', 'properties', 'ini', 'yaml', 'json', 'xml', 'toml'])
export type ConfigParser = z.infer<typeof ConfigParser>

/** A path inside a server's folder, as templates name files: relative, with `/`, and never out of the folder. */
export const InsidePath = z
  .string()
  .min(1)
  .max(1024)
  .refine(isInside, 'must be a path inside the server folder: relative, without .. and control characters')

/** A value as the file gets it; text may have placeholders. Its type is kept where the format knows types. */
export const ConfigValue = z.union([z.string().max(8192), z.number(), z.boolean(), z.null()])
export type ConfigValue = z.infer<typeof ConfigValue>

/** One value that a file gets, as {@link ConfigFile} says. */
export const ConfigSetting = z.object({
  key: z.string().min(1).max(1000),
  value: ConfigValue,
  ifValue: z.string().max(1000).optional(),
})

/** Values of one file. */
export const MOST_SETTINGS = 500

/**
 * A file of the game that is brought up to date before each start. `key` is a dotted path (`server-port`, `listeners[0].host`,
 * `servers.*.address`), or with `file` the beginning of a line. With `ifValue` only a present value is replaced that equals
 * it, or that the expression behind `regex:` finds.
 */
export const ConfigFile = z.object({
  path: InsidePath,
  parser: ConfigParser,
  /** Whether the file is made when it is absent. */
  create: z.boolean().default(true),
  set: z.array(ConfigSetting).max(MOST_SETTINGS).default([]),
})
export type ConfigFile = z.infer<typeof ConfigFile>

function isInside(path: string): boolean {
  if (/[\p{Cc}\\]/u.test(path) || path.startsWith('/')) return false
  return path.split('/').every((part) => part !== '..') && path.split('/').some((part) => part !== '' && part !== '.')
}
