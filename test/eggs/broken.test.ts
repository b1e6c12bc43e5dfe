import { expect, it } from 'vitest'
import { DocumentProblem, readDocument } from '../../src/shared/templates/document.ts'
import { EggProblem, importEgg } from '../../src/shared/templates/egg-import.ts'

type Egg = Record<string, unknown>

const VARIABLE = {
  name: 'World',
  description: '',
  env_variable: 'WORLD',
  default_value: 'pit',
  user_viewable: true,
  user_editable: true,
  rules: 'required|string|max:20',
  field_type: 'text',
}

/** An egg of which there is nothing to say. */
const WHOLE: Egg = {
  _comment: 'DO NOT EDIT',
  meta: { version: 'PTDL_v2', update_url: null },
  exported_at: '2026-01-01T00:00:00+00:00',
  name: 'Quarry',
  author: 'quarry@example.com',
  description: 'Dig and build.',
  features: null,
  docker_images: { 'Quarry 1': 'registry.example/quarry:1' },
  file_denylist: [],
  startup: './quarry --world "{{WORLD}}"',
  config: {
    files: '{"a.properties": {"parser": "properties", "find": {"port": "{{server.build.default.port}}"}}}',
    startup: '{"done": "Quarry is open"}',
    logs: '{}',
    stop: 'stop',
  },
  scripts: { installation: { script: '#!/bin/ash\n', container: 'registry.example/installers:1', entrypoint: 'ash' } },
  variables: [VARIABLE],
}

/** What lint says of a text: why it is refused, or the notes of its report. */
function findings(text: string): string[] {
  try {
    const { report } = importEgg(readDocument(text).value)
    return report.notes.map(({ kind, field, message }) => `${kind}: ${field} ${message}`)
  } catch (error) {
    if (error instanceof DocumentProblem) return [`document: ${error.message}`]
    if (error instanceof EggProblem) return error.details.map(({ field, message }) => `refused: ${field} ${message}`)
    throw error
  }
}

const egg = (change: Egg): string => JSON.stringify({ ...WHOLE, ...change })
const config = (change: Egg): string => egg({ config: { ...(WHOLE['config'] as Egg), ...change } })
const variable = (change: Egg): string => egg({ variables: [{ ...VARIABLE, ...change }] })
const files = (value: unknown): string => config({ files: JSON.stringify(value) })

const BROKEN: readonly (readonly [what: string, text: string, findings: readonly string[]])[] = [
  ['JSON that ends too early', egg({}).slice(0, 300), []],
  ['YAML that cannot be read', 'meta: {version: PTDL_v2\nname: x', []],
  ['a key that stands twice', 'meta:\n  version: PTDL_v2\nmeta: {}\n', []],
  ['a list', '[]', []],
  ['a version of the future', egg({ meta: { version: 'PLCN_v9' } }), []],
  ['no version', egg({ meta: {} }), []],
  ['no name', egg({ name: '' }), []],
  ['no startup line', egg({ startup: '' }), []],
  ['a startup line that is too long', egg({ startup: `./quarry ${'x'.repeat(5000)}` }), []],
  ['a here-document without an end', egg({ startup: 'cat <<END\n{{WORLD}}' }), []],
  ['a filter that does not exist', egg({ startup: './quarry "{{WORLD | raw}}"' }), []],
  ['a value that is handed to eval', egg({ startup: 'eval "./quarry {{WORLD}}"' }), []],
  ['a line for bash', egg({ startup: '[[ -f x ]] && ./quarry "{{WORLD}}"' }), []],
  ['placeholders without quotes', egg({ startup: './quarry {{WORLD}} {{SERVER_PORT}}' }), []],
  ['no image', egg({ docker_images: {} }), []],
  ['an image without a name', egg({ docker_images: { a: 'registry.example/a:1', b: '~' } }), []],
  ['files that are no JSON', config({ files: '{"a.yml": ' }), []],
  ['files that are a list', config({ files: '["a"]' }), []],
  ['a file outside of the folder', files({ '../../etc/passwd': { parser: 'file', find: { root: 'x' } } }), []],
  ['a parser that nobody knows', files({ 'a.cfg': { parser: 'gson', find: {} } }), []],
  ['a file that is a text', files({ 'a.cfg': 'properties' }), []],
  ['a value that is a list', files({ 'a.json': { parser: 'json', find: { a: [1], b: 2 } } }), []],
  ['an expression that cannot be used', files({ 'a.yml': { parser: 'yaml', find: { a: { 'regex:(?=x)': 'y' } } } }), []],
  ['a ready rule that is no expression', config({ startup: '{"done": ["up", "regex:(open"]}' }), []],
  ['a stop signal that does not exist', config({ stop: '^Z' }), []],
  ['no stop command', config({ stop: '' }), []],
  ['a log file outside of the folder', config({ logs: '{"custom": true, "location": "/var/log/x"}' }), []],
  ['a variable with a blank in its name', variable({ env_variable: 'MY WORLD' }), []],
  ['a variable that begins with a digit', variable({ env_variable: '1WORLD' }), []],
  ['a variable that loads programs', variable({ env_variable: 'LD_PRELOAD' }), []],
  ['a variable that the panel sets', variable({ env_variable: 'SERVER_PORT' }), []],
  ['a variable of the system', variable({ env_variable: 'HOSTNAME' }), []],
  ['a variable that stands twice', egg({ variables: [VARIABLE, { ...VARIABLE, name: 'Again' }] }), []],
  ['a rule that nobody knows', variable({ rules: 'required|hex_color' }), []],
  ['a rule without its number', variable({ rules: 'required|max' }), []],
  ['a rule with an expression that cannot be used', variable({ rules: 'required|regex:/(?<!a)b/' }), []],
  ['a default that breaks its rules', variable({ default_value: 'x'.repeat(30) }), []],
  ['rules that are a number', variable({ rules: 7 }), []],
  ['variables that are an object', egg({ variables: { a: 1 } }), []],
  ['features that are a number', egg({ features: 3 }), []],
  ['a pattern of files that is too long', egg({ file_denylist: ['x'.repeat(600), '*.key'] }), []],
  ['a field of the future', egg({ hologram: true }), []],
]

it('an egg that is whole has nothing said of it', () => {
  expect(findings(egg({}))).toEqual([])
})

it.each(BROKEN)('a report is right about %s', (_what, text, expected) => {
  expect(findings(text)).toEqual(expected)
})
