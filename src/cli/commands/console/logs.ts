import { streamConsole } from '../../../shared/api/console.ts'
import type { ServerId } from '../../../shared/kernel/ids.ts'
import type { Action } from '../../kit/command.ts'
import { usage } from '../../kit/failure.ts'
import { instantOf } from '../../kit/instant.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { type CursorFile, openCursorFile } from './cursor-file.ts'
import { consoleItem, gapNotice, type Line, lineFilter, printLine } from './line.ts'
import { PAGE, readLastLines, readLogPages } from './pages.ts'

interface Wanted {
  readonly serverId: string
  readonly tail: number
  readonly after: string | undefined
  readonly since: string | undefined
  readonly until: string | undefined
  readonly cursor: CursorFile | undefined
  readonly matches: (line: Line) => boolean
}

/** `panel console logs`. */
export const logs: Action = async (run) => {
  const { id: serverId } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  if (run.args.flag('all')) return await saveAll(run, serverId)
  if (run.args.text('out') !== undefined) throw usage('--out belongs to --all')
  const path = run.args.text('cursor-file')
  const cursor = path === undefined ? undefined : await openCursorFile(path)
  const wanted: Wanted = {
    serverId,
    tail: run.args.integer('tail') ?? 100,
    after: run.args.text('after-cursor') ?? cursor?.start,
    since: instantOf(run, 'since'),
    until: instantOf(run, 'until'),
    cursor,
    matches: lineFilter(run),
  }
  try {
    if (run.args.flag('follow')) return await follow(run, wanted)
    return await printUntilNow(run, wanted)
  } finally {
    await cursor?.save()
  }
}

/** The whole log, as the node has it. */
async function saveAll(run: Run, serverId: string): Promise<number> {
  const others = ['follow', 'tail', 'since', 'until', 'after-cursor', 'cursor-file', 'grep', 'stream']
  const other = others.find((name) => run.args.text(name) !== undefined || run.args.flag(name))
  if (other !== undefined) throw usage(`--all and --${other} exclude each other`)
  const [{ downloadLogs }, { saveFile }] = await Promise.all([
    import('../../../shared/api/files.ts'),
    import('../../kit/resource/download.ts'),
  ])
  const params = { serverId: serverId as ServerId } // the panel's own id of the server
  await saveFile(run, async () => (await (await run.client()).stream(downloadLogs, { params })).content)
  return 0
}

/** The lines up to now: after the cursor, since a time, or the last ones. */
async function printUntilNow(run: Run, wanted: Wanted): Promise<number> {
  let found = 0
  for await (const line of linesUntilNow(run, wanted)) {
    if (wanted.matches(line)) {
      await printLine(run, line)
      found += 1
    }
    wanted.cursor?.note(line.id)
  }
  return found === 0 && run.args.text('grep') !== undefined ? 15 : 0
}

async function* linesUntilNow(run: Run, wanted: Wanted): AsyncGenerator<Line> {
  const { serverId, since, until, after } = wanted
  if (after === undefined && since === undefined) {
    yield* await readLastLines(run, { serverId, count: wanted.tail, before: until })
    return
  }
  yield* readLogPages(run, { serverId, after: after ?? since, until, notices: true })
}

/** How many lines may be written before the cursor file is. */
const SAVE_EVERY = 500

async function follow(run: Run, wanted: Wanted): Promise<number> {
  if (wanted.until !== undefined) throw usage('--until and --follow exclude each other')
  const start = wanted.after ?? (await printBefore(run, wanted))
  const open = await run.streams()
  const query = start === undefined ? { lines: wanted.tail } : { lines: 0 }
  const overrides = { signal: run.signal, retriesBeforeOpen: 3, ...(start === undefined ? {} : { lastEventId: start }) }
  let unsaved = 0
  let idle: NodeJS.Immediate | undefined
  let failure: unknown
  for await (const item of open(streamConsole, { params: { serverId: wanted.serverId }, query }, overrides)) {
    if (item.kind === 'retrying')
      run.notice(`cut off (${oneLine(item.reason)}); next try in ${(item.inMs / 1000).toFixed(1)} s`)
    if (failure !== undefined) throw failure
    if (item.kind !== 'frame') continue
    const read = consoleItem(item)
    if (read?.kind === 'ended') run.notice(`the panel says: ${oneLine(read.reason)}`)
    if (read?.kind === 'resume') {
      const notice = gapNotice(read.resume)
      if (notice !== undefined) {
        run.terminal.say(notice)
        wanted.cursor?.note(read.id)
      }
    }
    if (read?.kind !== 'line') continue
    if (wanted.matches(read.line)) await printLine(run, read.line)
    wanted.cursor?.note(read.line.id)
    unsaved += 1
    clearImmediate(idle)
    if (unsaved >= SAVE_EVERY) {
      unsaved = 0
      await wanted.cursor?.save()
    } else if (wanted.cursor !== undefined) {
      // A quiet moment: nothing more is waiting to be written.
      idle = setImmediate(() => {
        wanted.cursor?.save().catch((error: unknown) => {
          failure ??= error
        })
      })
    }
  }
  clearImmediate(idle)
  return 0
}

/**
 * Prints what the stream does not begin with: the lines since a time, or more of the last ones than it gives. Returns the place where the
 * stream goes on, which is the one up to which this has read: a line that comes in between is in the stream.
 */
async function printBefore(run: Run, wanted: Wanted): Promise<string | undefined> {
  const { serverId, since, tail } = wanted
  if (since === undefined && tail <= PAGE) return undefined
  const print = async (line: Line): Promise<void> => {
    if (wanted.matches(line)) await printLine(run, line)
    wanted.cursor?.note(line.id)
  }
  if (since === undefined) {
    const lines = await readLastLines(run, { serverId, count: tail, before: undefined })
    for (const line of lines) await print(line)
    return lines.at(-1)?.id
  }
  const pages = readLogPages(run, { serverId, after: since, notices: true })
  for (;;) {
    const next = await pages.next()
    if (next.done === true) return next.value
    await print(next.value)
  }
}
