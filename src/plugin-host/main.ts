import { closeSync } from 'node:fs'
import type { ToPlugin } from '../shared/protocol/plugin-frames.ts'
import { Activated, activate } from './activate.ts'
import { Channel } from './channel.ts'
import { PanelClient } from './panel-client.ts'

/** The pipe to the daemon, and the folder of the program that this file was loaded through. */
const CHANNEL_FD = 3
const PROGRAM_FD = 4

/**
 * The process of one plugin. It runs as the plugin's user, in the plugin's folder, and loads no package: what is loaded here
 * counts against the memory of every plugin. It ends with the pipe to the daemon.
 */
function run(): void {
  // All of the program is loaded by now; the plugin has no business with its folder.
  closeSync(PROGRAM_FD)
  const channel = new Channel(CHANNEL_FD)
  const panel = new PanelClient(channel)
  let activated: Activated | undefined
  channel.onFrame((frame) => {
    if (frame.t === 'ping') channel.send({ t: 'pong', n: frame.n })
    else if (frame.t === 'start') void start(frame)
    else if (frame.t === 'call') void activated?.call(frame.id, frame.handler, frame.input)
    else if (frame.t === 'stop') void stop()
    else panel.settle(frame)
  })
  channel.onEnd(() => process.exit(0))

  async function start(frame: ToPlugin & { t: 'start' }): Promise<void> {
    try {
      activated = new Activated(channel, await activate(frame, panel))
      channel.send({ t: 'ready' })
    } catch (error) {
      const { message, stack } = failureOf(error)
      channel.send({ t: 'failed', message, stack })
    }
  }

  async function stop(): Promise<void> {
    await activated?.deactivate()
    channel.end(() => process.exit(0))
  }
}

function failureOf(error: unknown): { message: string; stack: string } {
  if (!(error instanceof Error)) return { message: String(error), stack: '' }
  return { message: error.message, stack: error.stack ?? '' }
}

run()
