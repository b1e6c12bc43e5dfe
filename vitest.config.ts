import { defineConfig } from 'vitest/config'
import { TAGS } from './test/tags.ts'

export default defineConfig({
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    exclude: ['test/long/**', 'node_modules/**'],
    globalSetup: ['test/home.ts', 'test/build.ts'],
    tags: TAGS,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Tests wait for processes and timers much of their time: three share two cores well.
    maxWorkers: 3,
    pool: 'forks',
    // To load the modules anew for each file would take a quarter of the run; no module keeps state.
    isolate: false,
  },
})
