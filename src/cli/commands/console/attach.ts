import { homedir } from 'node:os'
import { join } from 'node:path'
import type { Action } from '../../kit/command.ts'
import { subjectOf } from '../../kit/resource/actions.ts'
import type { Run } from '../../kit/run.ts'
import { isTooSmall } from '../../tui/layout.ts'
import { chooseTheme, THEME_NAMES } from '../../tui/terminal/theme.ts'
import { placeText } from '../servers/view.ts'
import { readServer } from '../servers/watch.ts'
import { lineMode } from './line-mode.ts'

/** `panel console attach`: the screen on a terminal that has room for it, plain lines elsewhere. */
export const attach: Action = async (run) => {
  const { id } = await subjectOf(run, { ref: 'server', param: 'serverId' })
  const { stdin, stdout, stderr } = run.terminal
  const screen = wantsScreen(run)
  // The screen is loaded while the daemon answers.
  const [server, app] = await Promise.all([readServer(run, id), screen ? import('../../tui/app.ts') : undefined])
  const takesNoInput = server.template.console?.kind === 'none'
  if (app === undefined) return lineMode(run, { id: server.id, name: server.name, takesNoInput })
  const contextName = (await run.target()).contextName ?? 'none'
  const noColor = run.args.choice('color') === false || run.env.noColor
  const name = THEME_NAMES.find((theme) => theme === run.args.text('theme')) ?? 'auto'
  const { client, batches } = await run.connection()
  return app.runConsole({
    client,
    openStream: batches,
    server: {
      id: server.id,
      name: server.name,
      nodeName: server.node.name,
      address: placeText(server),
      logLevels: server.template.logLevels ?? [],
    },
    contextName,
    tail: run.args.integer('tail') ?? 500,
    afterCursor: run.args.text('after-cursor'),
    readOnly: run.args.flag('read-only'),
    takesNoInput,
    detachKeys: run.args.text('detach-keys') ?? 'ctrl-]',
    theme: chooseTheme({ ...run.env.terminal, name, noColor }),
    colour: !noColor,
    exportFolder: homedir(),
    clock: run.clock,
    stdin,
    stdout,
    stderr,
    historyPath: join(run.env.stateDir, 'history', `${contextName}-${server.id}`.replace(/[^\w.@-]/g, '_')),
  })
}

/** Whether there is a terminal that a screen fits on; says so when it is too small. */
function wantsScreen(run: Run): boolean {
  const { stdin, stdout } = run.terminal
  if (run.args.choice('tui') === false || !stdin.isTTY || !stdout.isTTY || run.env.dumbTerminal) return false
  // A terminal that does not know its size, as over a serial line, says 0.
  const [columns, rows] = [stdout.columns || 80, stdout.rows || 24]
  if (!isTooSmall({ columns, rows })) return true
  run.notice(`this terminal has ${columns}x${rows}, and the screen needs 40x8: plain lines`)
  return false
}
