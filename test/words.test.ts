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
  [/\bremembered\b/, 'cached'],
  [/\bLeaving\b|\bserverLeaves\b/, 'BeforeDelete, beforeServerDelete'],
  [/\btellPlaces\b|\btellWebhooks\b|\btellOffline\b/, 'notifyTargets, notifyWebhooks, reportOffline'],
  [/\bjudgeExit\b|#judge\b/, 'classifyExit, #evaluate, #validate'],
  [/\b(?:Server|Node|Run|Db)Figures\b/, 'ServerUsage, NodeUsage, RunStats, DbStats'],
]

describe('the words of the source', () => {
  it.each(REPLACED)('are the field’s own: not %s, but %s', (word) => {
    const found = sources.flatMap(({ file, lines }) =>
      lines.flatMap((line, i) => (word.test(line) || word.test(file) ? [`${file}:${i + 1}: ${line.trim()}`] : [])),
    )
    expect(found).toEqual([])
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
