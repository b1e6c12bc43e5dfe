import { byteSize } from '../../kit/output/byte-size.ts'
import { oneLine } from '../../kit/output/escape.ts'
import type { Run } from '../../kit/run.ts'
import type { Progress } from './progress.ts'
import { doneOf } from './views.ts'

/** Shows how far a migration is. */
export interface Progressing {
  show(progress: Progress): void
  /** Says something that stays. */
  say(text: string): void
  end(): void
}

/** Of the same phase a line comes at most so often. */
const LINE_MS = 5000

/** Plain lines on stderr, for logs and pipes: what has failed at once, and how far it is every few seconds. */
export function progressLines(run: Run): Progressing {
  let lastMs = Number.NEGATIVE_INFINITY
  let last = { text: '', head: '', failures: 0, cutOff: '' }
  return {
    show: (progress) => {
      const nowMs = run.clock.monotonicMs()
      const cutOff = progress.cutOff ?? ''
      if (cutOff !== last.cutOff) run.notice(cutOff === '' ? 'connected again' : `cut off from the panel: ${cutOff}`)
      const unseen = progress.failures - last.failures
      const failed = unseen === 0 ? [] : progress.failed.slice(-unseen)
      for (const { action, name, error } of failed) run.notice(oneLine(`failed: ${action} ${name}: ${error}`))
      const { failures } = progress
      const head = `${progress.status} ${progress.phase ?? ''}`
      const text = lineOf(progress, nowMs)
      last = { ...last, failures, cutOff }
      if (text === last.text || (head === last.head && nowMs - lastMs < LINE_MS)) return
      last = { text, head, failures, cutOff }
      lastMs = nowMs
      run.notice(oneLine(text))
    },
    say: (text) => run.notice(text),
    end: () => undefined,
  }
}

/** `running, files: 412 of 960 steps, 3 failed; transfer_files survival 12.0 MiB of 40.0 MiB`. */
export function lineOf(progress: Progress, nowMs: number): string {
  const { status, requested, phase, counts, active, throttledUntilMs } = progress
  const under = requested === null ? status : requested === 'pause' ? 'pausing' : 'cancelling'
  const head = phase === null ? under : `${under}, ${phase}`
  const count = counts.total === 0 ? '' : `: ${doneOf(counts)} of ${counts.total} steps`
  const failed = counts.failed === 0 ? '' : `, ${counts.failed} failed`
  const moving = active.findLast(({ bytes }) => bytes > 0) ?? active.at(-1)
  const step = moving === undefined ? '' : `; ${moving.action} ${moving.name}${bytesOf(moving)}`
  const wait = throttledUntilMs > nowMs ? `; ${throttledText(throttledUntilMs - nowMs)}` : ''
  return `${head}${count}${failed}${step}${wait}`
}

/** ` 12.0 MiB of 40.0 MiB`, where bytes are counted. */
export function bytesOf({ bytes, totalBytes }: { readonly bytes: number; readonly totalBytes: number | null }): string {
  if (bytes === 0) return ''
  return totalBytes === null ? ` ${byteSize(bytes)}` : ` ${byteSize(bytes)} of ${byteSize(totalBytes)}`
}

/** That the source has asked to be left alone. */
export function throttledText(leftMs: number): string {
  return `the source wants to be left alone for ${Math.ceil(leftMs / 1000)} s`
}
