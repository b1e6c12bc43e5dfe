import { stringify } from 'csv-stringify/sync'
import type { FileAnswer } from '../../shared/kernel/contract.ts'
import type { ExportFormat } from '../../shared/kernel/export.ts'
import { type Clock, now } from '../../shared/kernel/time.ts'

/** A column of the CSV form. */
export interface ExportColumn<T> {
  readonly name: string
  readonly value: (row: T) => string | number | boolean | null
}

/** What an export is made of. */
export interface Export<T> {
  readonly format: ExportFormat
  /** The beginning of the file's name. */
  readonly name: string
  readonly columns: readonly ExportColumn<T>[]
  /** The JSON text of a row, on one line. */
  readonly toJson: (row: T) => string
  /** Called when the file is wanted; the next batch is asked for when the client has taken the one before. */
  readonly batches: () => AsyncIterable<readonly T[]>
  readonly clock: Clock
}

const TYPES: Readonly<Record<ExportFormat, string>> = {
  csv: 'text/csv; charset=utf-8; header=present',
  jsonl: 'application/jsonl; charset=utf-8',
  json: 'application/json; charset=utf-8',
}

/** Rows that become text at a time: other requests are answered in between. */
const CHUNK = 50

/**
 * An export as a file that is made while it is sent, so that its size does not matter. In CSV every field is quoted, and a
 * text that a spreadsheet would take for a formula begins with an apostrophe.
 */
export function exportFile<T>(wanted: Export<T>): FileAnswer {
  const day = now(wanted.clock).slice(0, 10)
  return {
    contentType: TYPES[wanted.format],
    fileName: `${wanted.name}-${day}.${wanted.format}`,
    content: contentOf(wanted),
  }
}

async function* contentOf<T>({ format, columns, toJson, batches }: Export<T>): AsyncGenerator<string> {
  const rows = chunksOf(batches())
  if (format === 'csv') {
    yield csv([columns.map(({ name }) => name)])
    for await (const chunk of rows) yield csv(chunk.map((row) => columns.map(({ value }) => value(row))))
  } else if (format === 'jsonl') {
    for await (const chunk of rows) yield chunk.map((row) => `${toJson(row)}\n`).join('')
  } else {
    let before = '[\n'
    for await (const chunk of rows) {
      yield before + chunk.map(toJson).join(',\n')
      before = ',\n'
    }
    yield before === '[\n' ? '[]\n' : '\n]\n'
  }
}

async function* chunksOf<T>(batches: AsyncIterable<readonly T[]>): AsyncGenerator<readonly T[]> {
  for await (const batch of batches) {
    for (let at = 0; at < batch.length; at += CHUNK) {
      yield batch.slice(at, at + CHUNK)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
}

function csv(rows: readonly (string | number | boolean | null)[][]): string {
  const cast = { boolean: (value: boolean): string => String(value) }
  const options = {
    quoted: true,
    quoted_empty: true,
    escape_formulas: true,
    record_delimiter: 'windows',
    cast,
  } as const
  return stringify([...rows], options)
}
