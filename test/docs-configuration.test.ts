import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { configNames as agentNames } from '../src/agent/config.ts'
import { optionName, walk } from '../src/cli/kit/command.ts'
import { tree } from '../src/cli/whole-tree.ts'
import { configNames, readConfig } from '../src/daemon/config/config.ts'
import { SECRET_SETTINGS, SETTINGS } from '../src/daemon/core/settings.ts'
import { ROOT } from './module-graph.ts'

const page = readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8')
const part = (title: string): string => page.split(/^## /m).find((text) => text.startsWith(title)) ?? ''

/** The rows of a part whose first cell names a setting: variable, flag, default, meaning. */
function rowsOf(title: string): Map<string, string[]> {
  const rows = [...part(title).matchAll(/^\| `([a-z]\w*\.\w+)` \|(.*)\|$/gm)]
  return new Map(rows.map(([, name = '', cells = '']) => [name, cells.split('|').map((cell) => cell.trim())]))
}

/** Settings of the database are on a page of their own. */
const ofTheDatabase = (name: string): boolean =>
  Object.hasOwn(SETTINGS, name) || SECRET_SETTINGS.some((secret) => name === `${secret}File`)

describe.each([
  { title: 'The daemon', command: 'daemon run', names: configNames().filter((name) => !ofTheDatabase(name)) },
  { title: 'The agent', command: 'agent run', names: agentNames() },
])('docs/configuration.md: $title', ({ title, command, names }) => {
  const rows = rowsOf(title)
  const options = [...walk(tree)].find(({ path }) => path.join(' ') === command)?.command.options ?? []
  const flags = options.map(({ flags }) => `--${optionName(flags)}`)

  it('has a row for each setting and none for anything else', () => {
    expect([...rows.keys()].sort()).toEqual(names.toSorted())
  })

  it('names variable, flag, default and effect of each', () => {
    for (const [name, [variable, flag = '', standard = '', effect = '']] of rows) {
      // A table of its own has no place in a variable.
      if (name === 'docker.registries' || name === 'backups.folders') continue
      const words = name.replace('.', '__').replace(/[A-Z]/g, '_$&').toUpperCase()
      expect(variable, name).toBe(`\`PANEL_${words}\``)
      if (flag !== '') expect(flags, name).toContain(flag.replaceAll('`', ''))
      expect([standard.length, effect.length > 20], name).toEqual([expect.any(Number), true])
    }
    const documented = [...rows.values()].map(([, flag = '']) => flag.replaceAll('`', '')).filter((flag) => flag !== '')
    expect(documented.toSorted()).toEqual(flags.filter((flag) => !['--config', '--check'].includes(flag)).toSorted())
  })
})

it('docs/configuration.md tells the defaults of a daemon without any setting', () => {
  const rows = rowsOf('The daemon')
  const bare = readConfig({}, { HOME: '/home/you' })
  const standard = (name: string) => rows.get(name)?.[2]?.replaceAll('`', '')
  expect(`${bare.host}:${bare.port}`).toBe(standard('http.listen'))
  expect(bare.dataDir).toBe(standard('data.dir')?.replace('~', '/home/you'))
  expect(bare.logLevel).toBe(standard('log.level'))
  expect(String(bare.embeddedAgent)).toBe(standard('agent.embedded'))
  const { publicUrl, tls, updateFeed, mailCa } = bare
  expect({ publicUrl, tls, updateFeed, mailCa, proxies: bare.trustedProxies }).toEqual({ proxies: [] })
})
