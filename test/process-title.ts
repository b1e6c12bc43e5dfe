import { relative } from 'node:path'
import { expect } from 'vitest'
import { ROOT } from './module-graph.ts'

/** Names the process by the file that it runs: `ps` tells which one is busy. */
process.title = `panel ${relative(ROOT, expect.getState().testPath ?? '')}`
