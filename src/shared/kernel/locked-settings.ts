import { z } from 'zod'

/** Which fields of a group of settings file or environment decide: a write that would change one is refused (409 SETTING_LOCKED). */
export const Locked = z.record(z.string(), z.enum(['env', 'file']))
export type Locked = z.infer<typeof Locked>
