import { jsonText, terminalText } from '../../../shared/kernel/terminal-text.ts'
import { usage } from '../failure.ts'
import type { Format } from '../flags.ts'
import { type CellStyle, humanCell, rawCell } from './cell.ts'
import { csvLine } from './csv.ts'
import { pickFields } from './fields.ts'
import { sheet, table } from './table.ts'
import type { Column, View } from './view.ts'

/** How the data of a command is written. */
export interface OutputOptions {
  readonly format: Format
  readonly fields: readonly string[]
  readonly jq: string | undefined
  readonly header: boolean
  readonly columns: readonly string[] | undefined
  readonly style: CellStyle
  /** Whether a person's terminal gets what is written. */
  readonly terminal: boolean
  /** Resolves when the text is handed on: a slow reader slows the writer down. */
  readonly write: (text: string) => Promise<void>
}

/** Writes the data of commands to stdout, in the format that was asked for. */
export class Output {
  readonly #options: OutputOptions
  #headed = false

  constructor(options: OutputOptions) {
    this.#options = options
  }

  get format(): Format {
    return this.#options.format
  }

  /** Whether a program reads this: no table, and failures are JSON too. */
  get machine(): boolean {
    return ['json', 'jsonl', 'yaml'].includes(this.format) || this.#options.jq !== undefined
  }

  /** Text of the program's own making, with its colours. */
  async text(text: string): Promise<void> {
    await this.#options.write(text)
  }

  /** Text of somebody else as it is; a terminal gets its control characters escaped. */
  async remote(text: string): Promise<void> {
    await this.text(this.#options.terminal ? terminalText(text) : text)
  }

  /** A list: the whole of it for JSON and YAML, a line for each row otherwise. */
  async list<T>(rows: readonly T[], view: View<T>): Promise<void> {
    if (this.#isRows()) {
      if (this.format === 'table' || this.format === 'wide') return this.text(this.#table(rows, view))
      if (rows.length === 0 && this.format === 'csv') await this.#csvHeader(view)
      for (const row of rows) await this.row(row, view)
      return
    }
    await this.value(rows)
  }

  /** One thing: a sheet of `title  value` for people. */
  async item<T>(row: T, view: View<T>): Promise<void> {
    if (this.format !== 'table' && this.format !== 'wide') return this.row(row, view)
    if (this.#options.jq !== undefined) return this.value(row)
    const pairs = this.#columns(view, true).map(({ title, value }) => {
      return [title, humanCell(value(row), this.#options.style)] as const
    })
    await this.text(sheet(pairs))
  }

  /** One row of a stream or list, in whatever format; tables have no heading here. */
  async row<T>(row: T, view: View<T>): Promise<void> {
    if (this.#options.jq !== undefined) return this.value(row)
    switch (this.format) {
      case 'id':
        return this.remote(`${view.id(row)}\n`)
      case 'name':
        return this.remote(`${view.name(row).replace(/[\r\n]/g, ' ')}\n`)
      case 'csv':
        await this.#csvHeader(view)
        return this.remote(csvLine(this.#columns(view, true).map(({ value }) => rawCell(value(row)))))
      case 'table':
      case 'wide': {
        const cells = this.#columns(view, this.format === 'wide').map(({ value }) =>
          humanCell(value(row), this.#options.style),
        )
        return this.text(`${cells.join('  ').trimEnd()}\n`)
      }
      default:
        return this.value(row)
    }
  }

  /** A value without a table of its own: JSON even for people. */
  async value(value: unknown): Promise<void> {
    const chosen = this.#choose(value)
    const { jq } = this.#options
    if (jq !== undefined) {
      const { runJq } = await import('./jq.ts')
      return this.remote(await runJq(chosen, jq))
    }
    if (this.format === 'yaml') {
      const { yamlText } = await import('./yaml-text.ts')
      return this.text(Array.isArray(chosen) ? yamlText(chosen) : `---\n${yamlText(chosen)}`)
    }
    if (this.format === 'jsonl') {
      const rows = Array.isArray(chosen) ? chosen : [chosen]
      for (const row of rows) await this.text(`${jsonText(row)}\n`)
      return
    }
    await this.text(`${jsonText(chosen, 2)}\n`)
  }

  /** One entry of a stream: JSON in one line, whatever the JSON format. */
  async entry(value: unknown): Promise<void> {
    const { jq } = this.#options
    if (jq !== undefined || this.format === 'yaml') return this.value(value)
    await this.text(`${jsonText(this.#choose(value))}\n`)
  }

  #isRows(): boolean {
    return this.#options.jq === undefined && !['json', 'yaml', 'jsonl'].includes(this.format)
  }

  #choose(value: unknown): unknown {
    const { fields } = this.#options
    if (fields.length === 0) return value
    return Array.isArray(value) ? value.map((row) => pickFields(row, fields)) : pickFields(value, fields)
  }

  #table<T>(rows: readonly T[], view: View<T>): string {
    const columns = this.#columns(view, this.format === 'wide')
    const { header, style } = this.#options
    const cells = rows.map((row) => columns.map(({ value }) => humanCell(value(row), style)))
    return table(header ? columns.map(({ title }) => style.paint.bold(title)) : undefined, cells)
  }

  async #csvHeader<T>(view: View<T>): Promise<void> {
    if (this.#headed || !this.#options.header) return
    this.#headed = true
    await this.text(csvLine(this.#columns(view, true).map(({ title }) => title.toLowerCase())))
  }

  #columns<T>(view: View<T>, all: boolean): readonly Column<T>[] {
    const { columns } = this.#options
    if (columns === undefined) return view.columns.filter(({ wide }) => all || wide !== true)
    return columns.map((name) => {
      const found = view.columns.find(({ title }) => title.toLowerCase() === name.toLowerCase())
      if (found !== undefined) return found
      throw usage(
        `there is no column '${name}'`,
        `columns: ${view.columns.map(({ title }) => title.toLowerCase()).join(', ')}`,
      )
    })
  }
}
