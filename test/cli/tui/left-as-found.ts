import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect } from 'vitest'
import type { Attached } from './attached.ts'
import { clearings, leftBehind, screenOutput } from './modes.ts'
import type { WayOut } from './ways-out.ts'

/**
 * Attaches, leaves, and checks that the terminal is as it was: by its settings, by the modes that tmux sees and by every
 * byte that was written. `meanwhile` runs between the two and gets the screen as it is.
 */
export async function leftAsFound(
  attached: Attached,
  way: WayOut,
  meanwhile: () => Promise<void> = () => Promise.resolve(),
): Promise<void> {
  const { pane, folder } = attached
  const modes = await pane.display(MODES)
  const recording = join(folder, 'recording')
  await pane.record(recording)
  await attached.command(...(way.words ?? []))
  await pane.until((now) => now.includes('LIVE') && /number \d/.test(now), 'the live screen', 20_000)
  expect(await pane.display('#{alternate_on}')).toBe('1')
  await meanwhile()
  await way.leave(attached)
  const screen = await pane.until(
    (now) => /EXIT=\d+/.test(now) && now.trimEnd().endsWith('READY>'),
    'the shell again',
    20_000,
  )
  expect(screen.replace(/\n/g, '')).toContain(way.says)
  expect(screen).toContain(`EXIT=${way.exit}\n`)
  expect(await pane.display(MODES)).toBe(modes)
  const { before, after } = await attached.settings()
  expect(after).toBe(before)
  expect(after).toMatch(/ icanon .* echo /s)
  await pane.record(undefined)
  const written = screenOutput(await readFile(recording, 'utf8'))
  expect(written).toContain('number')
  expect(leftBehind(written)).toEqual([])
  expect(clearings(written)).toBe(1) // the one at the start
}

const MODES =
  '#{alternate_on} #{cursor_flag} #{wrap_flag} #{keypad_flag} #{keypad_cursor_flag} #{insert_flag} #{origin_flag} #{mouse_any_flag}'
