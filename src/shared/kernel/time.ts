import { z } from 'zod'

/** An instant as ISO-8601 text in UTC with milliseconds, as it stands on the wire and in the database. */
export const IsoTime = z.iso.datetime({ precision: 3 }).brand<'IsoTime'>()
export type IsoTime = z.infer<typeof IsoTime>

/** An instant as a filter takes it: ISO-8601 in UTC or with an offset, or a day, which stands for its first moment in UTC. */
export const Instant = z.union([z.iso.datetime({ offset: true }), z.iso.date()], {
  error: 'must be a time such as 2026-01-31T12:00:00Z or a day such as 2026-01-31',
})

export { type Clock, isoTime, now, parseDuration, systemClock } from './clock.ts'
