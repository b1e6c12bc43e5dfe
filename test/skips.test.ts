import { expect, it } from 'vitest'
import { readSource, sourceFiles } from './module-graph.ts'

it('every test that may be skipped says why in its title, or in that of its group', () => {
  const silent = sourceFiles('test').flatMap((file) =>
    [...readSource(file).matchAll(/\.(?:skipIf|runIf)\([^\n]*(?:\n[^\n]*){0,2}/g)]
      .filter(([text]) => !/skipped|NO_[A-Z]+|WHY_NOT/.test(text))
      .map(([text]) => `${file}: ${text.split('\n')[0]}`),
  )
  // The test of the page of guarantees has one in a text.
  expect(silent.filter((one) => !/^test\/(?:docs-guarantees|skips)\.test\.ts/.test(one))).toEqual([])
})

it('every file of long tests is tagged as a whole, so that the quick run leaves it out and the long one has it', () => {
  const files = sourceFiles('test/long').filter((file) => /\.test\.tsx?$/.test(file))
  expect(files.length).toBeGreaterThan(20)
  expect(files.filter((file) => !/^\/\/ @module-[t]ag long\n/.test(readSource(file)))).toEqual([])
})
