/** Deeper than any body of the API is; what walks through a value calls itself for each level. */
export const MOST_BODY_DEPTH = 32

/** Whether a JSON text is nested deeper than that. Looks at the text, so that no parser meets a depth that it cannot bear. */
export function isDeeperThan(text: string, most: number): boolean {
  let depth = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const char = text.charCodeAt(i)
    if (inString) {
      if (char === 0x5c) i++
      else if (char === 0x22) inString = false
    } else if (char === 0x22) inString = true
    else if (char === 0x7b || char === 0x5b) {
      if (++depth > most) return true
    } else if (char === 0x7d || char === 0x5d) depth--
  }
  return false
}
