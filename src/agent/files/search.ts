import { constants, type Stats } from 'node:fs'
import { matchesGlob, parseGlob } from '../../shared/kernel/glob.ts'
import { pathText } from '../../shared/kernel/path-text.ts'
import type { Clock } from '../../shared/kernel/time.ts'
import { type EntryFacts, FILE_LIMITS, type FileProblem } from '../../shared/protocol/file-operations.ts'
import { AgentFailure } from '../failure.ts'
import type { FolderHandle } from './folder-handle.ts'
import { type LineMatcher, patternMatcher, textMatcher } from './line-matcher.ts'
import { cancelled, jsonBytes, kindOf, modifiedMsOf } from './list.ts'
import { isPart, MOST_PATH_BYTES, openRegular, pathBelow, pathIn, withFolder } from './place.ts'
import { Problems } from './problems.ts'
import type { ManyOptions } from './remove.ts'
import { KEPT } from './rules.ts'
import { type WalkPosition, walk } from './walk.ts'

const PIECE_BYTES = 256 * 1024
/** A file with a NUL among its first bytes is no text. */
const LOOK_BYTES = 8192
/** An expression sees no more of a line, and an answer shows less. */
const MOST_LINE = 4096
const SHOWN_LINE = 300
const MOST_BYTES = 4 * 1024 ** 3
const ROW_BYTES = 150

/** What is looked for. */
export interface SearchOptions extends ManyOptions {
  /** As shells have it. */
  readonly name: string | null
  readonly text: string | null
  readonly isPattern: boolean
  readonly ignoreCase: boolean
  readonly kind: EntryFacts['kind'] | null
  readonly limit: number
  readonly maxFileBytes: number
  readonly maxMs: number
  readonly clock: Clock
}

/** What was found. */
export interface SearchHit {
  readonly path: string
  readonly kind: EntryFacts['kind']
  readonly size: number
  readonly modifiedMs: number
  readonly line: number | null
  readonly text: string | null
}

/** The answer of a search; `cut` says what has ended it before all was looked at. */
export interface Found {
  readonly hits: SearchHit[]
  readonly entries: number
  readonly bytes: number
  readonly cut: 'hits' | 'time' | 'bytes' | null
  readonly unread: number
  readonly problems: FileProblem[]
}

/** Entries below a folder by name, kind and content, in the order in which the disk lists them. */
export async function search(root: string, path: string, options: SearchOptions): Promise<Found> {
  const { text, isPattern, ignoreCase } = options
  const matcher =
    text === null ? undefined : isPattern ? patternMatcher(text, ignoreCase) : textMatcher(text, ignoreCase)
  const run = new Search(path, options, matcher)
  try {
    return await withFolder(root, path, (folder) => run.in(folder))
  } finally {
    await matcher?.close()
  }
}

class Search {
  readonly #path: string
  readonly #options: SearchOptions
  readonly #matcher: LineMatcher | undefined
  readonly #glob: ReturnType<typeof parseGlob> | undefined
  readonly #hits: SearchHit[] = []
  readonly #until: number
  readonly #piece = Buffer.allocUnsafe(PIECE_BYTES)
  #cut: Found['cut'] = null
  // The other half is for what was not read.
  #left: number = FILE_LIMITS.answerBytes / 2
  #entries = 0
  #bytes = 0
  readonly #problems = new Problems()

  constructor(path: string, options: SearchOptions, matcher: LineMatcher | undefined) {
    this.#path = path
    this.#options = options
    this.#matcher = matcher
    this.#until = options.clock.monotonicMs() + options.maxMs
    const { name, ignoreCase } = options
    this.#glob = name === null ? undefined : parseGlob(ignoreCase ? name.toLowerCase() : name)
  }

  async in(folder: FolderHandle): Promise<Found> {
    const { signal } = this.#options
    await walk(
      folder,
      {
        entry: async (inner, name, at) => {
          if (isPart(name.toString('latin1'))) return
          if (this.#isHidden(at, name, false)) return
          this.#count()
          if (this.#mayBe(name)) await this.#look(inner, name, () => pathIn(at.path(MOST_PATH_BYTES), name))
        },
        enter: (inner, name, above) => {
          if (isPart(name.toString('latin1'))) return false
          if (this.#isHidden(above, name, true)) return false
          this.#count()
          if (this.#matcher !== undefined || !this.#mayBe(name)) return true
          const found = pathIn(above.path(MOST_PATH_BYTES), name)
          if (found !== undefined) this.#hit(found, inner.stat(), null)
          return true
        },
      },
      () => signal.aborted || this.#isOver(),
    )
    if (signal.aborted) throw cancelled()
    const { problems, problemCount } = this.#problems.answer
    return {
      hits: this.#hits,
      entries: this.#entries,
      bytes: this.#bytes,
      cut: this.#cut,
      unread: problemCount,
      problems,
    }
  }

  #isHidden(at: WalkPosition, name: Buffer, isFolder: boolean): boolean {
    const { rules } = this.#options
    if (!rules.hides) return false
    const found = pathIn(at.path(MOST_PATH_BYTES), name)
    return found === undefined || rules.isHidden(pathBelow(this.#path, found), isFolder)
  }

  #count(): void {
    this.#entries++
    this.#options.progress({ entries: this.#entries, bytes: this.#bytes })
  }

  #isOver(): boolean {
    if (this.#cut === null && this.#options.clock.monotonicMs() > this.#until) this.#cut = 'time'
    if (this.#cut === null && this.#bytes > MOST_BYTES) this.#cut = 'bytes'
    return this.#cut !== null
  }

  #mayBe(name: Buffer): boolean {
    if (this.#glob === undefined) return true
    const text = pathText(name)
    return matchesGlob(this.#glob, this.#options.ignoreCase ? text.toLowerCase() : text)
  }

  async #look(folder: FolderHandle, name: Buffer, where: () => Buffer | undefined): Promise<void> {
    const facts = folder.statOf(name)
    if (facts === undefined) return
    if (this.#matcher === undefined) {
      const found = where()
      if (found !== undefined) this.#hit(found, facts, null)
      return
    }
    if (!facts.isFile()) return
    const path = where()
    const shown = path === undefined ? undefined : pathBelow(this.#path, path)
    if (path === undefined || shown === undefined) return this.#problems.add(undefined, 'lies too deep')
    if (this.#options.rules.isDenied(shown)) return this.#problems.add(shown, KEPT)
    if (facts.size > this.#options.maxFileBytes) return this.#problems.add(shown, 'is larger than what is looked into')
    const line = await this.#inFile({ folder, name, shown }, this.#matcher)
    if (line !== undefined) this.#hit(path, facts, line)
  }

  /** The first line that matches. */
  async #inFile(
    { folder, name, shown }: { readonly folder: FolderHandle; readonly name: Buffer; readonly shown: string },
    matcher: LineMatcher,
  ): Promise<{ number: number; text: string } | undefined> {
    const file = await openRegular({ folder, name }, constants.O_RDONLY).catch((error: unknown) => {
      if (!(error instanceof AgentFailure)) throw error
      return undefined // closed, or no file any more
    })
    if (file === undefined) {
      this.#problems.add(shown, 'is closed to the agent, or was taken away meanwhile')
      return undefined
    }
    const decoder = new TextDecoder()
    let rest = ''
    let number = 0
    let at = 0
    try {
      for (;;) {
        if (this.#options.signal.aborted || this.#isOver()) return undefined
        const { bytesRead } = await file.read(this.#piece, 0, PIECE_BYTES, at)
        const piece = this.#piece.subarray(0, bytesRead)
        if (at === 0 && piece.subarray(0, LOOK_BYTES).includes(0)) {
          this.#problems.add(shown, 'is no text')
          return undefined
        }
        at += bytesRead
        this.#bytes += bytesRead
        const lines = (rest + decoder.decode(piece, { stream: bytesRead > 0 })).split('\n')
        rest = bytesRead === 0 ? '' : (lines.pop() ?? '').slice(0, MOST_LINE)
        const found = await matcher.first(lines.map((line) => line.slice(0, MOST_LINE)))
        if (found !== undefined) {
          return { number: number + found + 1, text: (lines[found] ?? '').trimEnd().slice(0, SHOWN_LINE) }
        }
        number += lines.length
        if (bytesRead === 0 || at > this.#options.maxFileBytes) return undefined
      }
    } finally {
      await file.close()
    }
  }

  #hit(found: Buffer, facts: Stats, line: { readonly number: number; readonly text: string } | null): void {
    const kind = kindOf(facts)
    if (this.#options.kind !== null && this.#options.kind !== kind) return
    const path = pathBelow(this.#path, found)
    this.#left -= ROW_BYTES + jsonBytes(path) + jsonBytes(line?.text ?? '')
    if (this.#hits.length >= this.#options.limit || this.#left < 0) {
      this.#cut = 'hits'
      return
    }
    const { size } = facts
    const modifiedMs = modifiedMsOf(facts)
    this.#hits.push({ path, kind, size, modifiedMs, line: line?.number ?? null, text: line?.text ?? null })
  }
}
