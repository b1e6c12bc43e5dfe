import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT, readSource, sourceFiles } from './module-graph.ts'

const sources = [...sourceFiles('bin'), ...sourceFiles('src')].map((file) => ({
  file,
  lines: readSource(file).split('\n'),
}))

/** Words of our own for what the field has a name for; what to write instead. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/\bdoors?\b|Doors?\b/i, 'HttpServer, UpgradeGuard, HolderClient, …Deps'],
  [/mishap/i, 'error, onError'],
  [/courier/i, 'DeliveryWorker'],
  [/\bwish(?:es|ed|ing|Of)?\b|Wish\b/, 'request, desired, options'],
  [/farewell/i, 'detachMessage'],
  [/layFoundation|\bFoundation\b/, 'wireCore, CoreWiring'],
  [/giveWord|ChildVoice/, 'sendGo, Handshake'],
  [/lost-?beginning/i, 'interrupted-start'],
  [/\battendance|\battend\b/i, 'dispatch'],
  [/AMONG_OTHERS/, 'IN_BATCH'],
  [/remembered/i, 'cached'],
  [/\bLeaving\b|\bserverLeaves\b/, 'BeforeDelete, beforeServerDelete'],
  [/\btellPlaces\b|\btellWebhooks\b|\btellOffline\b/, 'notifyTargets, notifyWebhooks, reportOffline'],
  [/\bjudge[ds]?\b|\bjudgeExit\b/i, 'classify, evaluate, validate'],
  [/\bfigures?(?:\b|(?=[A-Z]))|Figures?\b|\bFIGURES?\b/, 'usage, stats, metrics, counters, limits'],
  [/\b(?:[Tt]old|[Tt]ells?|[Tt]elling)(?:\b|(?=[A-Z]))/, 'report, notify, say, send, show'],
  [/\b(?:he|his|him|himself)\b/i, 'they, or the noun'],
  [/\bnews\b/i, 'report, change, progress'],
  [/\bendRest\b|\blaneRest/, 'endBackOff, laneBackOff'],
]

describe('the words of the source', () => {
  it.each(REPLACED)('are the field’s own: not %s, but %s', (word) => {
    const found = sources.flatMap(({ file, lines }) =>
      lines.flatMap((line, i) => (word.test(line) || word.test(file) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
    )
    expect(found).toEqual([])
  })

  it('are the field’s own in the tests as well, whose sentences are their own', () => {
    const words = /\bdoors?\b|Doors?\b|mishap|courier|\bwish(?:es|ed)?\b|Wish\b|farewell|\bconst told\b/i
    const tests = sourceFiles('test').filter((file) => file !== 'test/words.test.ts')
    const found = tests.flatMap((file) =>
      readSource(file)
        .split('\n')
        .flatMap((line, i) => (words.test(line) || words.test(file) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
    )
    expect(tests.length).toBeGreaterThan(300)
    expect(found).toEqual([])
    expect(words.test('const door = await open()')).toBe(true)
  })

  it('are those of a log in log lines: what happened, without an article', () => {
    const lines = sources.flatMap(({ file, lines: all }) =>
      [...all.join('\n').matchAll(/[lL]og\.(?:debug|info|warn|error|fatal)\([^;]{0,300}?'([^']{2,})',?\s*\)/g)].map(
        ([, text = '']) => ({ file, text }),
      ),
    )
    expect(lines.length).toBeGreaterThan(80)
    expect(lines.filter(({ text }) => /^(?:an?|the|it|what|whether|there|nothing) |^[A-Z][a-z]/.test(text))).toEqual([])
  })

  it('are looked for where they would be', () => {
    expect(sources.length).toBeGreaterThan(300)
    expect(REPLACED.filter(([word]) => word.test('createDoor'))).toHaveLength(1)
  })
})

describe('comments of the source', () => {
  it('cite only pages that the repository holds, and sections only of RFCs', () => {
    const found = sources.flatMap(({ file, lines }) =>
      lines.flatMap((line, i) => {
        const pages = [...line.matchAll(/\b([\w/.-]+\.md)\b/g)].map(([, page = '']) => page)
        const lacks = pages.filter((page) => !existsSync(join(ROOT, page)) && !existsSync(join(ROOT, 'docs', page)))
        const section = /§/.test(line) && !/RFC \d+ §/.test(line)
        const decision = /\bdecisions? #\d/.test(line)
        return lacks.length > 0 || section || decision ? [`${file}:${i + 1}: ${line.trim()}`] : []
      }),
    )
    expect(found).toEqual([])
  })
})
