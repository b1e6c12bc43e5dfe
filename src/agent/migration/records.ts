import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { PulledFiles } from '../../shared/protocol/migration.ts'
import { writeOwnJson } from '../state/json-file.ts'
import type { AgentLayout } from '../state/layout.ts'

const END = '.json'

/** What is kept of a step whose files have come. An older agent's, or a damaged one, is read as none. */
const StepRecord = z.object({
  stepId: z.string(),
  serverId: z.string(),
  /** `placing` is written before a folder is exchanged: which of the two it came to shows by what is there. */
  state: z.enum(['ready', 'placing', 'placed']),
  /** The server has other files than those that came. */
  isMerged: z.boolean(),
  pulled: PulledFiles,
  atMs: z.number(),
})
export type StepRecord = z.infer<typeof StepRecord>

/** What the node knows of steps, over its restarts: a file for each in a folder of the agent's own. */
export class StepRecords {
  readonly #folder: string

  constructor({ migrationsDir }: Pick<AgentLayout, 'migrationsDir'>) {
    this.#folder = migrationsDir
  }

  /** Where the list of a step's files lies. */
  listPath(stepId: string): string {
    return join(this.#folder, `${stepId}.files`)
  }

  async read(stepId: string): Promise<StepRecord | undefined> {
    const text = await readFile(this.#path(stepId), 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return undefined
      throw error
    })
    if (text === undefined) return undefined
    const parsed = StepRecord.safeParse(jsonOf(text))
    return parsed.success && parsed.data.stepId === stepId ? parsed.data : undefined
  }

  async write(record: StepRecord): Promise<void> {
    await writeOwnJson(this.#path(record.stepId), record)
  }

  async remove(stepId: string): Promise<void> {
    await rm(this.#path(stepId), { force: true })
    await rm(this.listPath(stepId), { force: true })
  }

  /** Every record that can be read. */
  async all(): Promise<StepRecord[]> {
    const names = (await readdir(this.#folder)).filter((name) => name.endsWith(END))
    const records = await Promise.all(names.map((name) => this.read(name.slice(0, -END.length))))
    return records.flatMap((record) => record ?? [])
  }

  /** Removes what lies there without a record. While work is under way there is some: its list, and records on their way to the disk. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.#folder)) {
      const record = await this.read(name.slice(0, name.lastIndexOf('.')))
      if (record === undefined) await rm(join(this.#folder, name), { force: true })
    }
  }

  #path(stepId: string): string {
    return join(this.#folder, `${stepId}${END}`)
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // no record is like that
  }
}
