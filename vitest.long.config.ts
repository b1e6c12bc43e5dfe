import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/long/**/*.test.{ts,tsx}'],
    globalSetup: ['test/home.ts', 'test/build.ts'],
    testTimeout: 900_000,
    hookTimeout: 120_000,
    maxWorkers: 1,
    pool: 'forks',
  },
})
