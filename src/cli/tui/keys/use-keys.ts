import { setImmediate as nextTurn } from 'node:timers/promises'
import { useStdin } from 'ink'
import { useLayoutEffect } from 'react'
import type { Clock } from '../../../shared/kernel/time.ts'
import { createKeyReader, type Input } from './keys.ts'

/** How long an Escape waits for the rest of a sequence that the way to the terminal has cut in two; as tmux does. */
const ESCAPE_MS = 10
/** A reason of its own: without one, each abort makes an error with a stack. */
const FOLLOWED = 'followed'

/**
 * Calls `onInput` for every key, paste and turn of the wheel while the component stands. Ink reads the terminal and splits what
 * comes into sequences; its `useInput` knows no function keys, no wheel and no paste, and takes Backspace for Delete, so the
 * sequences are named here.
 */
export function useKeys(onInput: (input: Input) => void, clock: Clock): void {
  const { internal_eventEmitter: sequences, isRawModeSupported, setRawMode } = useStdin()
  useLayoutEffect(() => {
    if (!isRawModeSupported) return undefined
    const reader = createKeyReader()
    let waiting = new AbortController()
    const settle = async (signal: AbortSignal): Promise<void> => {
      await clock.sleep(ESCAPE_MS, signal)
      await nextTurn() // what has arrived meanwhile is read first
      if (!signal.aborted) for (const input of reader.flush()) onInput(input)
    }
    const take = (sequence: string): void => {
      waiting.abort(FOLLOWED)
      for (const input of reader.push(sequence)) onInput(input)
      if (!reader.waiting) return
      const mine = new AbortController()
      waiting = mine
      void settle(mine.signal)
    }
    sequences.on('input', take)
    setRawMode(true)
    return () => {
      waiting.abort(FOLLOWED)
      sequences.off('input', take)
      setRawMode(false)
    }
  }, [sequences, isRawModeSupported, setRawMode, onInput, clock])
}
