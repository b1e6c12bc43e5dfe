import { join, resolve } from 'node:path'
import { defineConfig, type Plugin } from 'vitest/config'
import { LongestFirst } from './test/longest-first.ts'
import { TAGS } from './test/tags.ts'

const SRC = resolve(import.meta.dirname, 'src')

/** Tests run the modules that were built, as the processes do that they start: to compile each once more takes longer than many tests. */
const builtModules: Plugin = {
  name: 'modules as they were built',
  enforce: 'pre',
  resolveId(source, importer) {
    const dist = process.env['PANEL_TEST_DIST']
    if (dist === undefined || importer === undefined || !source.startsWith('.')) return null
    const path = resolve(importer, '..', source)
    if (!path.startsWith(`${SRC}/`) || !/\.tsx?$/.test(path)) return null
    return join(dist, 'src', path.slice(SRC.length).replace(/\.tsx?$/, '.js'))
  },
}

export default defineConfig({
  plugins: [builtModules],
  test: {
    include: ['test/**/*.test.{ts,tsx}'],
    exclude: ['test/long/**', 'node_modules/**'],
    globalSetup: ['test/home.ts', 'test/build.ts'],
    setupFiles: ['test/process-title.ts'],
    tags: TAGS,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    // Tests wait for processes and timers much of their time: three share two cores well.
    maxWorkers: 3,
    pool: 'forks',
    // To load the modules anew for each file would take a quarter of the run; no module keeps state.
    isolate: false,
    sequence: { sequencer: LongestFirst },
    server: { deps: { external: [/\/dist\/src\//, /\/panel-test-dist-\w+\/src\//] } },
  },
})
