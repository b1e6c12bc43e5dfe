import { COMMANDS } from '../../../../shared/protocol/server.ts'
import type { Queries } from '../../../db/db.ts'
import type { FrameOf } from '../../../gateway/handlers.ts'

/** How far a command is, as its definition says it. */
export interface CommandProgress {
  readonly serverId: string
  readonly commandId: string
  readonly op: string
  readonly progress: Readonly<Record<string, unknown>>
}

/** Passes on how far commands are. Nothing is kept: a report is worth something only until the next one. */
export class CommandReports {
  readonly #listeners = new Set<(report: CommandProgress) => void>()

  listen(listener: (report: CommandProgress) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Takes a report about a command of that very node; any other one, and what does not fit the command, is left aside. */
  async report(q: Queries, nodeId: string, { id: commandId, progress }: FrameOf<'command.progress'>): Promise<void> {
    const row = await q
      .selectFrom('command')
      .select(['op', 'serverId'])
      .where('id', '=', commandId)
      .where('nodeId', '=', nodeId)
      .where('endedAt', 'is', null)
      .executeTakeFirst()
    if (row === undefined) return
    const parsed = COMMANDS.find(({ op }) => op === row.op)?.progress.safeParse(progress)
    if (parsed?.success !== true) return
    const report = { serverId: row.serverId, commandId, op: row.op, progress: { ...parsed.data } }
    for (const listener of this.#listeners) listener(report)
  }
}
