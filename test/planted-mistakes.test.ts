import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Mutant } from './mutants/mutant.ts'

const LISTS = join(import.meta.dirname, 'mutants')
const NO_LISTS = ['main.ts', 'mutant.ts', 'source-copy.ts']
const ROOT = join(import.meta.dirname, '..')

test('every mistake that is planted by `npm run mutants` fits the source, in one place', async () => {
  const names = readdirSync(LISTS).filter((name) => !NO_LISTS.includes(name))
  const lists = await Promise.all(
    names.map(async (name): Promise<{ MUTANTS: readonly Mutant[] }> => import(`./mutants/${name}`)),
  )
  const mutants = lists.flatMap(({ MUTANTS }) => MUTANTS)
  expect(mutants.length).toBeGreaterThan(100)
  const odd = mutants.filter(({ file, find }) => readFileSync(join(ROOT, file), 'utf8').split(find).length !== 2)
  expect(odd.map(({ file, find, title }) => ({ file, find, title }))).toEqual([])
})
