import type { IsoTime } from '../../../shared/kernel/time.ts'

/** A truth value as SQLite stores it. */
export type Flag = 0 | 1

/** A column of JSON text; `parseJson` of core/json.ts reads it. */
export type Json = string

/** When a row was made and last changed. */
export interface Stamps {
  createdAt: IsoTime
  updatedAt: IsoTime
}
