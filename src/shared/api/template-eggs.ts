import { z } from 'zod'

/** The formats of eggs, the templates of Pterodactyl (PTDL) and Pelican (PLCN), that are read and written. */
export const EggFormat = z.enum(['PTDL_v1', 'PTDL_v2', 'PLCN_v1', 'PLCN_v2', 'PLCN_v3'])
export type EggFormat = z.infer<typeof EggFormat>

/**
 * What an import says of one field of an egg. `kept`: only the export has it again; `unused`: this panel does nothing
 * with it; `rule`: values are not checked by it; `split`: placeholders that are split at blanks; `changed`: it means the same in
 * other words; `warning`: look at it.
 */
export const EggNote = z.object({
  kind: z.enum(['kept', 'unused', 'rule', 'split', 'changed', 'warning']),
  /** The field of the egg, by its dotted path. */
  field: z.string(),
  message: z.string(),
})
export type EggNote = z.infer<typeof EggNote>

/** What became of an egg. */
export const EggReport = z.object({ format: EggFormat, notes: z.array(EggNote) })
export type EggReport = z.infer<typeof EggReport>

/** The egg that a template was imported from. */
export const EggOrigin = z.object({ format: EggFormat, uuid: z.string().nullable(), updateUrl: z.string().nullable() })

/** An egg as it was imported; the export goes by it. */
export const EggDocument = z.record(z.string(), z.unknown())
