import type { Environment } from '../environment.ts'

/** Colours for one output stream; each function returns its text unchanged when there are none. */
export interface Paint {
  readonly enabled: boolean
  bold(text: string): string
  dim(text: string): string
  red(text: string): string
  /** A server's or node's status in its colour. */
  status(text: string): string
}

/** Decides by flag, environment and whether the stream is a terminal; stdout and stderr are decided apart. */
export function wantsColour(
  env: Environment,
  stream: { readonly isTTY?: boolean },
  flags: { readonly color: string | undefined; readonly noColor: boolean },
): boolean {
  if (flags.noColor || flags.color === 'never') return false
  if (flags.color === 'always') return true
  if (env.noColor) return false
  if (env.forceColor) return true
  return stream.isTTY === true && !env.dumbTerminal
}

/** The painter of a stream. */
export function createPaint(enabled: boolean): Paint {
  const sgr = (code: number) => (text: string) => (enabled ? `\u001b[${code}m${text}\u001b[0m` : text)
  const [bold, dim, red, green, yellow] = [sgr(1), sgr(2), sgr(31), sgr(32), sgr(33)]
  const byStatus: Readonly<Record<string, (text: string) => string>> = {
    running: green,
    online: green,
    crashed: red,
    error: red,
    suspended: red,
    offline: red,
    stale: red,
    starting: yellow,
    stopping: yellow,
    installing: yellow,
    unknown: yellow,
    maintenance: yellow,
    stopped: dim,
  }
  return { enabled, bold, dim, red, status: (text) => byStatus[text]?.(text) ?? text }
}
