import type { Mutant } from './mutant.ts'

const ROWS = 'test/cli/tui/line-rows.test.ts'
const MODEL = 'test/cli/tui/model.test.ts'
const FRAME = 'test/cli/tui/frame.test.ts'
const PACE = 'test/cli/tui/pace.test.ts'
const PAINTER = 'test/cli/tui/painter.test.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    title: 'A line of stderr counts as a warning',
    topic: 'screen',
    file: 'src/cli/tui/log/level.ts',
    find: "if (found === null) return 'info'",
    replace: "if (found === null) return kind === 'stderr' ? 'warn' : 'info'",
    seenBy: [ROWS],
  },
  {
    title: 'A stack trace takes the level of the line before it, of whichever stream',
    topic: 'screen',
    file: 'src/cli/tui/log/ring.ts',
    find: 'this.#before.set(kind, level)',
    replace: 'for (const stream of ENTRY_KINDS) this.#before.set(stream, level)',
    seenBy: [ROWS],
  },
  {
    title: 'A cut line has no mark',
    topic: 'screen',
    file: 'src/cli/tui/log/line-rows.ts',
    find: "...(after ? [{ style: tone, text: '›' }] : []),",
    replace: "...(after ? [{ style: tone, text: ' ' }] : []),",
    seenBy: [ROWS],
  },
  {
    title: 'A match takes the style of the text around it as well',
    topic: 'screen',
    file: 'src/cli/tui/log/cut.ts',
    find: 'marked.push({ style, text: span.text.slice(start - offset, stop - offset) })',
    replace: 'marked.push({ style: style + span.style, text: span.text.slice(start - offset, stop - offset) })',
    seenBy: [ROWS],
  },
  {
    title: 'A line has two times',
    topic: 'screen',
    file: 'src/cli/tui/log/line-rows.ts',
    find: "if (OWN_TIME.test(plainText(entry.text.slice(0, OWN_TIME_WITHIN)))) return ''",
    replace: "if (OWN_TIME.test('')) return ''",
    seenBy: [ROWS],
  },
  {
    title: 'An Escape and a key that follows it are the key with Alt',
    topic: 'screen',
    file: 'src/cli/tui/keys/keys.ts',
    find: 'if (before === ESC && !GOES_ON.test(sequence))',
    replace: "if (before === ESC && sequence === '')",
    seenBy: [MODEL],
  },
  {
    title: 'A command that is sent while the view is paused leaves it there',
    topic: 'screen',
    file: 'src/cli/tui/keys/press-input.ts',
    find: '...followTail(state),',
    replace: '...state,',
    seenBy: [MODEL],
  },
  {
    title: 'A paste cannot be stopped',
    topic: 'screen',
    file: 'src/cli/tui/keys/press.ts',
    find: 'if (state.queued > 0) return',
    replace: 'if (state.queued < 0) return',
    seenBy: [MODEL],
  },
  {
    title: 'The header stays green without a connection',
    topic: 'screen',
    file: 'src/cli/tui/model/facts.ts',
    find: "return facts.link.kind !== 'live' || facts.nodeOfflineSinceMs !== undefined",
    replace: 'return facts.nodeOfflineSinceMs !== undefined',
    seenBy: [FRAME],
  },
  {
    title: 'A screen that only reads offers power',
    topic: 'screen',
    file: 'src/cli/tui/components/hints.tsx',
    find: "...(readOnly ? [] : ['p power']),",
    replace: "'p power',",
    seenBy: [FRAME],
  },
  {
    title: 'A text of a daemon reaches the terminal with its control characters',
    topic: 'screen',
    file: 'src/cli/tui/components/label.tsx',
    find: 'const line = oneLine(text)',
    replace: 'const line = text',
    seenBy: [FRAME],
  },
  {
    title: 'A slow terminal gets the log before the prompt',
    topic: 'screen',
    file: 'src/cli/tui/terminal/painter.ts',
    find: 'if (Number.isFinite(most)) {',
    replace: 'if (most < 0) {',
    seenBy: [PAINTER],
  },
  {
    title: 'A slow terminal is written to as if it were fast',
    topic: 'screen',
    file: 'src/cli/tui/terminal/pace.ts',
    find: 'credit = -QUEUED',
    replace: 'bytesPerMs = Number.POSITIVE_INFINITY',
    seenBy: [PACE],
  },
]
