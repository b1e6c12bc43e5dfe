/** What stands between the start of the alternate screen and the shell's next word. */
export function screenOutput(recorded: string): string {
  const start = recorded.indexOf('\u001B[?1049h')
  const end = recorded.lastIndexOf('EXIT=')
  return start < 0 ? '' : recorded.slice(start, end < start ? undefined : end)
}

/** How often the screen was cleared. */
export function clearings(written: string): number {
  return written.match(CLEAR)?.length ?? 0
}

/**
 * Which modes of the terminal are not as they were at the start, when all of this has been written: private modes, the
 * kitty keyboard, modified keys, the keypad, the scrolling region and text styles.
 */
export function leftBehind(written: string): string[] {
  const modes = new Map<string, boolean>()
  let kitty = 0
  let keys = 0
  let keypad = false
  let region = false
  let style = false
  for (const [all, intermediate = '', parameters = '', final = ''] of written.matchAll(SEQUENCE)) {
    if (intermediate === '?' && (final === 'h' || final === 'l')) {
      for (const mode of parameters.split(';')) modes.set(mode, final === 'h')
    } else if (final === 'u' && intermediate === '>') kitty += 1
    else if (final === 'u' && intermediate === '<') kitty -= 1
    else if (final === 'u' && intermediate === '=') kitty = Number(parameters.split(';')[0])
    else if (final === 'm' && intermediate === '>') keys = Number(parameters.split(';')[1] ?? '0')
    else if (final === 'm' && intermediate === '') style = !/^0?$/.test(parameters)
    else if (final === 'r' && intermediate === '') region = parameters !== ''
    else if (all === '\u001B=' || all === '\u001B>') keypad = all === '\u001B='
  }
  const changed = [...modes].filter(([mode, on]) => on !== ON_AT_THE_START.has(mode)).map(([mode]) => `?${mode}`)
  const others = { kitty: kitty !== 0, keys: keys !== 0, keypad, region, style }
  return [...changed, ...Object.entries(others).flatMap(([name, left]) => (left ? [name] : []))]
}

/** Wrapping and the cursor. */
const ON_AT_THE_START = new Set(['7', '25'])
// biome-ignore lint/suspicious/noControlCharactersInRegex: what terminals understand
const CLEAR = /\u001B\[[0123]?J|\u001Bc/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: what terminals understand
const SEQUENCE = /\u001B(?:\[([?<>=]?)([\d;:]*)[ -/]*([@-~])|[=>])/g
