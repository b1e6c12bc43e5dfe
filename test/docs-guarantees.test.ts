import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from './module-graph.ts'

const page = readFileSync(join(ROOT, 'docs/guarantees.md'), 'utf8')

test('each promise of docs/guarantees.md names a test that exists', () => {
  const promises = page.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| Promise'))
  expect(promises.length).toBeGreaterThan(20)
  for (const promise of promises) {
    const proofs = [...promise.matchAll(/`(test\/[^`]+\.test\.ts)`/g)].map(([, file]) => file ?? '')
    expect(proofs, promise).not.toEqual([])
    expect(proofs.filter((file) => !existsSync(join(ROOT, file)))).toEqual([])
  }
})
