import type { Option } from '../command.ts'

/** The flags of a command that fetches a file. */
export const DOWNLOAD: readonly Option[] = [
  { flags: '--out <file>', summary: 'write to this file, which must not be there yet (default: stdout)' },
  { flags: '--force', summary: 'replace the file of --out' },
]

/** How an export is written. */
export const FORMAT: Option = {
  flags: '--format <format>',
  summary: 'csv (the default), jsonl or json',
  choices: ['csv', 'jsonl', 'json'],
  field: 'format',
}
