import { parentPort, workerData } from 'node:worker_threads'
import type { ConfigFile } from '../../shared/protocol/config-files.ts'
import { ConfigFileProblem } from './config-file-problem.ts'
import { configText } from './config-text.ts'

// A thread for one large file: parsing it would hold up every other server of the agent. It is terminated when it takes too long.

/** What the thread is started with. */
export interface ConfigJob {
  readonly file: ConfigFile
  readonly text: string | null
  readonly known: Readonly<Record<string, string>>
}

/** What it answers: the new text (`null`: it stays as it is), or the problem of the file. */
export type ConfigAnswer = { readonly text: string | null } | { readonly problem: string }

parentPort?.postMessage(answer(workerData as ConfigJob)) // what the agent starts it with

function answer({ file, text, known }: ConfigJob): ConfigAnswer {
  try {
    return { text: configText(file, text, known) }
  } catch (error) {
    if (error instanceof ConfigFileProblem) return { problem: error.message }
    throw error
  }
}
