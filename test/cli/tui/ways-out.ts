import type { Attached } from './attached.ts'

/** One way in which a console screen ends. */
export interface WayOut {
  readonly name: string
  /** Words for the command line. */
  readonly words?: readonly string[]
  readonly leave: (attached: Attached) => Promise<void>
  readonly exit: number
  /** What the shell's screen shows afterwards. */
  readonly says: string
}

const DETACHED = 'detached from survival-1 at e1-'

/** Every way out but the loss of the terminal itself. */
export const WAYS_OUT: readonly WayOut[] = [
  { name: 'the detach key', leave: ({ pane }) => pane.keys('C-]'), exit: 0, says: DETACHED },
  { name: 'q in the log', leave: ({ pane }) => pane.toLog().then(() => pane.keys('q')), exit: 0, says: DETACHED },
  {
    name: 'detach keys of one’s own',
    words: ['--detach-keys', 'ctrl-p,ctrl-q'],
    leave: ({ pane }) => pane.keys('C-p', 'C-q'),
    exit: 0,
    says: DETACHED,
  },
  {
    name: 'Ctrl-C twice; once only clears the line',
    leave: async ({ pane }) => {
      await pane.text('half a comm')
      await pane.shows('> half a comm')
      await pane.keys('C-c')
      await pane.until((now) => !now.includes('half a comm') && now.includes('Ctrl-C again'), 'a cleared line')
      await pane.keys('C-c', 'C-c')
    },
    exit: 0,
    says: DETACHED,
  },
  {
    name: 'SIGINT twice',
    leave: async (attached) => {
      await send(attached, 'SIGINT')
      await attached.pane.shows('Ctrl-C again')
      await send(attached, 'SIGINT')
    },
    exit: 0,
    says: DETACHED,
  },
  { name: 'SIGTERM', leave: (attached) => send(attached, 'SIGTERM'), exit: 143, says: DETACHED },
  { name: 'SIGHUP', leave: (attached) => send(attached, 'SIGHUP'), exit: 129, says: DETACHED },
  {
    name: 'an error that nobody caught',
    leave: (attached) => send(attached, 'SIGUSR2'),
    exit: 1,
    says: 'crashed on purpose',
  },
  {
    name: 'the detach key while the daemon is gone',
    leave: async ({ pane, peer }) => {
      await peer.goAway()
      await pane.shows('RECONNECTING')
      await pane.keys('C-]')
    },
    exit: 0,
    says: DETACHED,
  },
  {
    name: 'the detach key after the key has expired; the text stays until then',
    leave: async ({ pane, peer }) => {
      peer.refuse({ status: 401, code: 'AUTH_EXPIRED' })
      peer.cut()
      await pane.until(
        (now) => now.includes('AUTH EXPIRED') && /number \d/.test(now),
        'the refusal and the text',
        20_000,
      )
      await pane.keys('C-]')
    },
    exit: 4,
    says: DETACHED,
  },
]

async function send(attached: Attached, signal: NodeJS.Signals): Promise<void> {
  process.kill(await attached.pid(), signal)
}
