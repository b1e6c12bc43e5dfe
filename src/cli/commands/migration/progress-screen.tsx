import { Box, render } from 'ink'
import type { ReactElement } from 'react'
import { shortDuration } from '../../kit/output/cell.ts'
import type { Run } from '../../kit/run.ts'
import { Label, ThemeContext } from '../../tui/components/label.tsx'
import { barText } from '../../tui/components/meters.tsx'
import { chooseTheme, type Tone } from '../../tui/terminal/theme.ts'
import type { ActiveStep, Progress } from './progress.ts'
import { bytesOf, type Progressing, throttledText } from './progress-lines.ts'
import { doneOf } from './views.ts'

/** How often a frame is drawn at most. */
const FRAME_MS = 100
const HINT = 'Ctrl-C ends the watching; the migration goes on'

/** The progress screen: some rows on stderr that are drawn again in their place, and stay as they were at the end. */
export function progressScreen(run: Run): Progressing {
  const { stdin, stderr } = run.terminal
  const startedMs = run.clock.monotonicMs()
  const noColor = run.args.choice('color') === false || run.env.noColor
  const theme = chooseTheme({ ...run.env.terminal, name: 'auto', noColor })
  let said: readonly string[] = []
  let last: Progress | undefined
  let drawnMs = Number.NEGATIVE_INFINITY
  const frame = (hint: string): ReactElement => (
    <ThemeContext value={theme}>
      {last === undefined ? null : (
        <ProgressScreen
          {...{ progress: last, said, hint, nowMs: run.clock.monotonicMs(), startedMs }}
          columns={stderr.columns || 80}
          rows={stderr.rows || 24}
        />
      )}
    </ThemeContext>
  )
  const tree = render(null, { stdin, stdout: stderr, stderr, exitOnCtrlC: false, patchConsole: false })
  const draw = (hint: string): void => {
    drawnMs = run.clock.monotonicMs()
    tree.rerender(frame(hint))
  }
  return {
    show: (progress) => {
      const isMoved = last?.status !== progress.status
      last = progress
      if (isMoved || run.clock.monotonicMs() - drawnMs >= FRAME_MS) draw(HINT)
    },
    say: (text) => {
      said = [...said.filter((other) => other !== text).slice(-2), text]
      draw(HINT)
    },
    end: () => {
      draw('')
      tree.unmount()
    },
  }
}

export interface ProgressScreenProps {
  readonly progress: Progress
  /** What was said meanwhile, the last things. */
  readonly said: readonly string[]
  readonly hint: string
  readonly nowMs: number
  readonly startedMs: number
  readonly columns: number
  readonly rows: number
}

/** The most rows beside those of steps and failures: title, bar, more, throttle, cut, three that were said, hint, and one that stays free. */
const FIXED_ROWS = 10
const MOST_STEPS = 8
const MOST_FAILED = 4

/** How far a migration is: a bar of all steps, those under way with their bytes, and the last that have failed. */
export function ProgressScreen(props: ProgressScreenProps): ReactElement {
  const { progress, said, hint, nowMs, startedMs, columns, rows } = props
  const room = Math.max(1, rows - FIXED_ROWS)
  const failed = progress.failed.slice(-Math.min(MOST_FAILED, Math.floor(room / 2)))
  const active = progress.active.slice(-Math.max(1, Math.min(MOST_STEPS, room - failed.length)))
  const more = progress.active.length - active.length
  const width = Math.max(20, columns - 1)
  const { throttledUntilMs, cutOff } = progress
  return (
    <Box flexDirection="column" width={width}>
      <Row>
        <Label text={titleOf(progress)} tone="title" room={width - 8} />
        <Label text={shortDuration(nowMs - startedMs)} tone="dim" />
      </Row>
      <Steps progress={progress} width={width} />
      {active.map((step) => (
        <Step key={step.stepId} step={step} width={width} />
      ))}
      {more > 0 && <Label text={`  and ${more} more`} tone="dim" />}
      {failed.map(({ action, name, error }, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: failures have no name of their own, and are only added
        <Label key={index} text={`  failed: ${action} ${name}: ${error}`} tone="bad" room={width} />
      ))}
      {throttledUntilMs > nowMs && (
        <Label text={`  ${throttledText(throttledUntilMs - nowMs)}`} tone="warn" room={width} />
      )}
      {cutOff !== null && <Label text={`  cut off from the panel, trying again: ${cutOff}`} tone="warn" room={width} />}
      {said.map((text) => (
        <Label key={text} text={`  ${text}`} tone="message" room={width} />
      ))}
      <Label text={hint} tone="dim" room={width} />
    </Box>
  )
}

function Row({ children }: { readonly children: readonly ReactElement[] }): ReactElement {
  return (
    <Box height={1} gap={2} overflow="hidden">
      {children}
    </Box>
  )
}

function Steps({ progress, width }: { readonly progress: Progress; readonly width: number }): ReactElement {
  const { counts, status, requested, phase } = progress
  const done = doneOf(counts)
  const { full, rest } = barText(counts.total === 0 ? 0 : done / counts.total, width >= 100 ? 30 : 16)
  const word = requested === null ? status : requested === 'pause' ? 'pausing' : 'cancelling'
  const tone: Tone = status === 'failed' ? 'bad' : status === 'paused' || requested !== null ? 'warn' : 'good'
  return (
    <Row>
      <Box flexShrink={0}>
        {full === '' ? <Box /> : <Label text={full} tone="fill" />}
        {rest === '' ? <Box /> : <Label text={rest} tone="rest" />}
      </Box>
      <Label text={counts.total === 0 ? 'no steps yet' : `${done} of ${counts.total} steps`} />
      <Label text={phase === null ? word : `${word}, ${phase}`} tone={tone} />
      <Label text={counts.failed === 0 ? '' : `${counts.failed} failed`} tone="bad" />
      <Label text={counts.skipped === 0 ? '' : `${counts.skipped} skipped`} tone="dim" />
    </Row>
  )
}

function Step({ step, width }: { readonly step: ActiveStep; readonly width: number }): ReactElement {
  const { action, name, bytes, totalBytes } = step
  const share = totalBytes === null || totalBytes === 0 ? undefined : bytes / totalBytes
  const { full, rest } = barText(share ?? 0, 10)
  const text = `  ${action} ${name}`
  return (
    <Row>
      <Label text={text} room={Math.max(10, width - 44)} />
      <Label text={bytesOf(step).trim()} tone="dim" />
      {share === undefined ? (
        <Box />
      ) : (
        <Box flexShrink={0}>
          {full === '' ? <Box /> : <Label text={full} tone="fill" />}
          {rest === '' ? <Box /> : <Label text={rest} tone="rest" />}
        </Box>
      )}
    </Row>
  )
}

const TITLES = { move: 'Moving in from', plan: 'Planning a move from', verify: 'Comparing with' } as const

function titleOf({ what, sourceUrl, sourceKind }: Progress): string {
  return `${TITLES[what]} ${sourceUrl}${sourceKind === null ? '' : ` (${sourceKind})`}`
}
