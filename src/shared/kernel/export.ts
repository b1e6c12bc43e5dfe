import { z } from 'zod'

/** How an export is written: rows of a table, one JSON object per line, or one JSON array. */
export const ExportFormat = z.enum(['csv', 'jsonl', 'json'])
export type ExportFormat = z.infer<typeof ExportFormat>
