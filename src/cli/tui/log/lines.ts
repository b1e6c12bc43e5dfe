import type { Clock } from '../../../shared/kernel/time.ts'
import { type ConsoleState, isFiltered } from '../model/model.ts'
import type { Theme } from '../terminal/theme.ts'
import { plainText } from './ansi.ts'
import { passesLevel } from './level.ts'
import { LineIndex } from './line-index.ts'
import { type LineStyle, lineRows } from './line-rows.ts'
import { logView } from './log-view.ts'
import type { Entry, Ring } from './ring.ts'
import type { Pane } from './viewport.ts'

const SLICE_MS = 4
const MOST_CACHED = 400

/** Above this many lines per second nobody reads along: lines are not coloured. */
export const FAST_RATE = 300

/** Columns and rows of the log on the screen. */
export interface PaneSize {
  readonly width: number
  readonly height: number
}

/** The lines as the state wants to see them: filtered, searched and made into rows of the present width. */
export class Lines {
  readonly ring: Ring
  readonly #clock: Clock
  readonly #theme: Theme
  #size: PaneSize = { width: 1, height: 0 }
  #filter: { readonly key: string; readonly index: LineIndex } | undefined
  #search: { readonly key: string; readonly index: LineIndex } | undefined
  #searching = false
  #rows = new Map<number, readonly string[]>()
  #rowsKey = ''

  constructor(ring: Ring, clock: Clock, theme: Theme) {
    this.ring = ring
    this.#clock = clock
    this.#theme = theme
  }

  get size(): PaneSize {
    return this.#size
  }

  /** The room that the screen leaves for the log. */
  resize(size: PaneSize): void {
    this.#size = size
  }

  /** Forgets what is known by place, after places have moved. */
  forget(): void {
    this.#filter = undefined
    this.#search = undefined
    this.#rows.clear()
  }

  get matches(): LineIndex | undefined {
    return this.#search?.index
  }

  get searching(): boolean {
    return this.#searching
  }

  /** The lines that are kept now, or those of them that pass level and filter, oldest first; gaps come with them. */
  *kept(state: ConsoleState): Generator<Entry> {
    const { end } = this.ring
    for (let at = this.ring.first; at < end; at += 1) {
      at = Math.max(at, this.ring.first)
      const entry = this.ring.get(at)
      if (entry !== undefined && shows(state, entry)) yield entry
    }
  }

  /** Works on filter and search for a few milliseconds; whether more is to be done. */
  advance(state: ConsoleState): boolean {
    this.#prepare(state)
    const filtering = this.#filter?.index.advance(SLICE_MS, this.#clock) ?? false
    this.#searching = this.#search?.index.advance(SLICE_MS, this.#clock) ?? false
    return filtering || this.#searching
  }

  pane(state: ConsoleState): Pane {
    this.#prepare(state)
    const style = this.#style(state)
    this.#freshen(style, state)
    const rowsOf = (at: number): readonly string[] => this.#rowsOf(at, style, state)
    return { view: logView(this.ring, this.#filter?.index), height: this.#size.height, rowsOf }
  }

  /** Brings the indexes in line with what the state filters and searches. */
  #prepare(state: ConsoleState): void {
    const filterKey = isFiltered(state) ? `${state.level} ${state.filter?.inverse} ${state.filter?.pattern}` : undefined
    if (filterKey !== this.#filter?.key) {
      const index = new LineIndex(this.ring, (entry) => shows(state, entry))
      this.#filter = filterKey === undefined ? undefined : { key: filterKey, index }
    }
    const { search } = state
    const searchKey = search === undefined ? undefined : `${search.pattern} ${filterKey}`
    if (searchKey !== this.#search?.key) {
      const found = (entry: Entry): boolean => {
        return entry.kind !== 'gap' && search?.contains(plainText(entry.text)) === true && shows(state, entry)
      }
      this.#search = searchKey === undefined ? undefined : { key: searchKey, index: new LineIndex(this.ring, found) }
      this.#searching = searchKey !== undefined
    }
  }

  /** Forgets the rows that are known when they would look otherwise now. */
  #freshen(style: LineStyle, state: ConsoleState): void {
    const { width, time, wrap, shift, colour, highlight, loadKey } = style
    const moment = time === 'relative' ? Math.floor(style.nowMs / 200) : 0
    const key = [width, time, wrap, shift, colour, highlight, state.search?.pattern, loadKey, moment].join()
    if (key === this.#rowsKey && this.#rows.size <= MOST_CACHED) return
    this.#rows.clear()
    this.#rowsKey = key
  }

  #rowsOf(at: number, style: LineStyle, state: ConsoleState): readonly string[] {
    const { mode, matchAt } = state
    const current = matchAt === at
    const selected = mode.kind === 'select' && at >= Math.min(mode.from, mode.to) && at <= Math.max(mode.from, mode.to)
    const passing = selected || current
    const known = passing ? undefined : this.#rows.get(at)
    if (known !== undefined) return known
    const entry = this.ring.get(at)
    const rows = entry === undefined ? [''] : lineRows(entry, passing ? { ...style, current, selected } : style)
    if (!passing) this.#rows.set(at, rows)
    return rows
  }

  /** The style of a line that is neither selected nor the match that the search stands on. */
  #style(state: ConsoleState): LineStyle {
    return {
      theme: this.#theme,
      width: this.#size.width,
      time: state.time,
      nowMs: this.#clock.nowMs(),
      wrap: state.wrap,
      shift: state.shift,
      colour: state.colour,
      highlight: state.facts.rate <= FAST_RATE || !state.follow,
      search: state.search,
      current: false,
      selected: false,
      loadKey: state.focus === 'log' ? 'h' : 'Esc h',
    }
  }
}

/** Whether a line passes level and filter; gaps always do. */
function shows(state: ConsoleState, entry: Entry): boolean {
  if (entry.kind === 'gap') return true
  if (!passesLevel(entry.level, state.level)) return false
  const { filter } = state
  return filter === undefined || filter.contains(plainText(entry.text)) !== filter.inverse
}
