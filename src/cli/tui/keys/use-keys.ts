import { useStdin } from 'ink'
import { useLayoutEffect } from 'react'
import type { Clock } from '../../../shared/kernel/time.ts'
import { createKeyReader, type Input } from './keys.ts'

/** How long an Escape waits for the rest of a sequence that the way to the terminal has cut in two. */
const ESCAPE_MS = 30

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
    const take = (sequence: string): void => {
      waiting.abort()
      for (const input of reader.push(sequence)) onInput(input)
      if (!reader.waiting) return
      const mine = new AbortController()
      waiting = mine
      void clock.sleep(ESCAPE_MS, mine.signal).then(() => {
        if (!mine.signal.aborted) for (const input of reader.flush()) onInput(input)
      })
    }
    sequences.on('input', take)
    setRawMode(true)
    return () => {
      waiting.abort()
      sequences.off('input', take)
      setRawMode(false)
    }
  }, [sequences, isRawModeSupported, setRawMode, onInput, clock])
}
