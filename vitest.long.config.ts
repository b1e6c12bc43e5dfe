import { defineConfig } from 'vitest/config'
import { TAGS } from './test/tags.ts'

/** What `npm test` leaves out: the files of test/long, and single tests elsewhere that are tagged as long. */
export default defineConfig({
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    globalSetup: ['test/home.ts', 'test/build.ts'],
    tags: TAGS,
    testTimeout: 900_000,
    hookTimeout: 120_000,
    maxWorkers: 1,
    pool: 'forks',
  },
})
