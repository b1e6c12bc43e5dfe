import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { parse } from 'yaml'
import { createTemplate } from '../src/shared/api/templates.ts'
import { templateProblems } from '../src/shared/templates/template-problems.ts'
import { ROOT } from './module-graph.ts'

const page = readFileSync(join(ROOT, 'docs/templates.md'), 'utf8')
const blocks = [...page.matchAll(/^```yaml\n(.*?)^```$/gms)].map(([, text = '']) => text)
/** What a part of a template takes from the rest of one. */
const REST = { name: 'Page', startup: './game', variables: [{ name: 'QUERY_PORT' }] }

it.each(blocks)('a block of the page about templates is taken by the panel: %s', (text) => {
  const parsed = createTemplate.body.strict().safeParse({ ...REST, ...parse(text) })
  expect(parsed.error?.issues ?? []).toEqual([])
  expect(parsed.data === undefined ? [] : templateProblems(parsed.data)).toEqual([])
})

it('the page about templates has blocks, and each stands between its marks', () => {
  expect(blocks.length).toBeGreaterThan(5)
  const outside = page.replace(/^```.*?^```$/gms, '')
  expect(outside).not.toMatch(/^(?:\w+:|\s+- \{)/m)
})
