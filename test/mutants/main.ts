import { readdir } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import type { Mutant } from './mutant.ts'
import { type Outcome, SourceCopy } from './source-copy.ts'

/**
 * Plants known mistakes in a copy of the source, one at a time, and runs the tests that have to see each. Prints for every
 * mistake the test that failed because of it. The exit code is 1 when one goes unseen or does not fit the source any more.
 *
 *     npm run mutants                              all of them
 *     npm run mutants -- --topic guards            those of a topic; --title and --file take a part of a title or path
 *     npm run mutants -- --shard 1/4               every fourth
 *     npm run mutants -- --jobs 2                  two at a time
 *     npm run mutants -- --list                    only what there is
 */
const { values } = parseArgs({
  options: {
    topic: { type: 'string' },
    title: { type: 'string' },
    file: { type: 'string' },
    shard: { type: 'string', default: '1/1' },
    jobs: { type: 'string', default: '1' },
    list: { type: 'boolean', default: false },
  },
})

const root = process.cwd()
const mutants = chosen(await allMutants())
if (values.list) for (const { topic, title, seenBy } of mutants) print(`${topic}: ${title} (${seenBy.join(', ')})`)
else process.exitCode = (await plantAll()) ? 0 : 1

async function allMutants(): Promise<Mutant[]> {
  const names = (await readdir(import.meta.dirname)).filter((name) => name.endsWith('.js')).sort()
  const others = ['main.js', 'mutant.js', 'source-copy.js']
  const lists = await Promise.all(
    names
      .filter((name) => !others.includes(name))
      .map(async (name): Promise<readonly Mutant[]> => (await import(`./${name}`)).MUTANTS),
  )
  return lists.flat()
}

function chosen(all: readonly Mutant[]): Mutant[] {
  const { topic, title = '', file = '', shard } = values
  const [place = 1, of = 1] = shard.split('/').map(Number)
  return all
    .filter((mutant) => topic === undefined || mutant.topic === topic)
    .filter((mutant) => mutant.title.includes(title) && mutant.file.includes(file))
    .sort((a, b) => a.topic.localeCompare(b.topic))
    .filter((_, index) => index % of === place - 1)
}

/** Whether every mistake was seen by tests that pass without it. */
async function plantAll(): Promise<boolean> {
  const copies = await Promise.all(Array.from({ length: Math.max(1, Number(values.jobs)) }, () => SourceCopy.of(root)))
  try {
    const failing = await copies[0]?.failingWithout([...new Set(mutants.flatMap(({ seenBy }) => seenBy))])
    for (const file of failing ?? []) print(`FAILS WITHOUT ANY MISTAKE: ${file}`)
    const left = [...mutants]
    const outcomes: Outcome[] = []
    await Promise.all(
      copies.map(async (copy) => {
        for (let mutant = left.shift(); mutant !== undefined; mutant = left.shift()) {
          const outcome = await copy.plant(mutant)
          outcomes.push(outcome)
          print(`${line(outcome)}  [${mutant.topic}] ${mutant.title}`)
        }
      }),
    )
    const seen = outcomes.filter(({ kind }) => kind === 'seen').length
    print(`${seen} of ${mutants.length} mistakes were seen`)
    return seen === mutants.length && failing?.length === 0
  } finally {
    await Promise.all(copies.map((copy) => copy.remove()))
  }
}

function line(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'seen':
      return `seen by "${outcome.test}"`
    case 'unseen':
      return 'NOT SEEN'
    case 'invalid':
      return `INVALID (${outcome.why})`
  }
}

function print(text: string): void {
  process.stdout.write(`${text}\n`)
}
