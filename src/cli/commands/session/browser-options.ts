import type { Option } from '../../kit/command.ts'

/** The flags of whatever goes on in a browser. */
export const BROWSER: readonly Option[] = [
  { flags: '--no-browser', summary: 'only print the address to open' },
  { flags: '--timeout <duration>', summary: 'how long to wait for the browser (default 5m); exit 124 when it passes' },
]
