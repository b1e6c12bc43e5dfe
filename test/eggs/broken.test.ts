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

/** What is said of the line once its variable has another name. */
const NAMELESS = 'warning: startup names no variable of the egg, and becomes nothing: WORLD'

const BROKEN: readonly (readonly [what: string, text: string, findings: readonly string[]])[] = [
  [
    'JSON that ends too early',
    egg({}).slice(0, 300),
    ['document: is not valid JSON: Unterminated string in JSON at position 300'],
  ],
  [
    'YAML that cannot be read',
    'meta: {version: PTDL_v2\nname: x',
    ['document: is not valid YAML: Flow map in block collection must be sufficiently indented and end with a }'],
  ],
  ['a key that stands twice', 'meta:\n  version: PTDL_v2\nmeta: {}\n', ['document: has the key meta twice']],
  ['a list', '[]', ['document: must hold one object']],
  [
    'a version of the future',
    egg({ meta: { version: 'PLCN_v9' } }),
    ['refused:  is of a version that this panel does not read; it reads PTDL_v1, PTDL_v2, PLCN_v1, PLCN_v2, PLCN_v3'],
  ],
  ['no version', egg({ meta: {} }), ['warning: meta.version is missing; it looks like PTDL_v2']],
  ['no name', egg({ name: '' }), ['refused: name is required']],
  ['no startup line', egg({ startup: '' }), ['refused: startup is required']],
  [
    'a startup line that is too long',
    egg({ startup: `./quarry ${'x'.repeat(5000)}` }),
    ['refused: startup is longer than 4096 characters'],
  ],
  [
    'a here-document without an end',
    egg({ startup: 'cat <<END\n{{WORLD}}' }),
    ['refused: startup has a here-document whose end cannot be found: write its end alone on a line'],
  ],
  [
    'a filter that does not exist',
    egg({ startup: './quarry "{{WORLD | raw}}"' }),
    ['refused: startup has a placeholder with a filter that does not exist: {{NAME | split}} is the only one'],
  ],
  [
    'a value that is handed to eval',
    egg({ startup: 'eval "./quarry {{WORLD}}"' }),
    ['warning: startup hands text to eval or another shell: values of variables can become code there'],
  ],
  [
    'a line for bash',
    egg({ startup: '[[ -f x ]] && ./quarry "{{WORLD}}"' }),
    ['warning: startup is written for bash, and is run by it: the image must have it'],
  ],
  [
    'placeholders without quotes',
    egg({ startup: './quarry {{WORLD}} {{SERVER_PORT}}' }),
    ['split: startup leaves these unquoted, so that they are split at blanks: WORLD, SERVER_PORT'],
  ],
  [
    'a line that names no variable',
    egg({ startup: './quarry "{{WRLD}}" "{{P_SERVER_LOCATION}}" {{SERVER_IP}}' }),
    [
      'warning: startup names no variable of the egg, and becomes nothing: WRLD, P_SERVER_LOCATION',
      'split: startup leaves these unquoted, so that they are split at blanks: SERVER_IP',
    ],
  ],
  [
    'a file that names no variable',
    files({ 'a.ini': { parser: 'ini', find: { a: '{{env.WRLD}}{{server.uuid}}' } } }),
    ['warning: config.files.a.ini.find.a names no variable of the egg, and becomes nothing: env.WRLD'],
  ],
  ['no image', egg({ docker_images: {} }), ['refused: docker_images names no image; one is required']],
  [
    'an image without a name',
    egg({ docker_images: { a: 'registry.example/a:1', b: '~' } }),
    ['unused: docker_images has an image that cannot be kept: b'],
  ],
  [
    'files that are no JSON',
    config({ files: '{"a.yml": ' }),
    ['refused: config.files is not valid JSON: Unexpected end of JSON input'],
  ],
  ['files that are a list', config({ files: '["a"]' }), ['refused: config.files must be an object of files']],
  [
    'a file outside of the folder',
    files({ '../../etc/passwd': { parser: 'file', find: { root: 'x' } } }),
    [
      'unused: config.files.../../etc/passwd cannot be kept: path must be a path inside the server folder: relative, without .. and control characters',
    ],
  ],
  [
    'a parser that nobody knows',
    files({ 'a.cfg': { parser: 'gson', find: {} } }),
    ['unused: config.files.a.cfg.parser is no parser of this panel: gson'],
  ],
  [
    'a file that is a text',
    files({ 'a.cfg': 'properties' }),
    ['unused: config.files.a.cfg is no description of a file'],
  ],
  [
    'a value that is a list',
    files({ 'a.json': { parser: 'json', find: { a: [1], b: 2 } } }),
    ['unused: config.files.a.json.find.a is a list or an object; a value is a text, a number or a truth'],
  ],
  [
    'an expression that cannot be used',
    files({ 'a.yml': { parser: 'yaml', find: { a: { 'regex:(?=x)': 'y' } } } }),
    [
      'unused: config.files.a.yml.find.a is no regular expression of RE2: error parsing regexp: invalid or unsupported Perl syntax: `(?=`; nothing is replaced by it',
    ],
  ],
  [
    'a ready rule that is no expression',
    config({ startup: '{"done": ["up", "regex:(open"]}' }),
    [
      'unused: config.startup.done is no regular expression of RE2: error parsing regexp: missing closing ): `(open`; the server is running without it after 120 s',
    ],
  ],
  [
    'a stop signal that does not exist',
    config({ stop: '^Z' }),
    ['changed: config.stop names no signal that a stop may use; it is SIGTERM here'],
  ],
  ['no stop command', config({ stop: '' }), ['warning: config.stop is empty: a stop kills the server at once']],
  [
    'a log file outside of the folder',
    config({ logs: '{"custom": true, "location": "../other/x.log"}' }),
    ['unused: config.logs.location is no path inside the server folder'],
  ],
  [
    'a variable with a blank in its name',
    variable({ env_variable: 'MY WORLD' }),
    ['refused: variables.0.env_variable must be letters, digits and _'],
  ],
  [
    'a variable that begins with a digit',
    variable({ env_variable: '1WORLD' }),
    ['unused: variables.0.env_variable begins with a digit: no shell has such a variable', NAMELESS],
  ],
  [
    'a variable that loads programs',
    variable({ env_variable: 'LD_PRELOAD' }),
    [
      'unused: variables.0.env_variable LD_PRELOAD changes how programs are loaded and is never set by a template',
      NAMELESS,
    ],
  ],
  [
    'a variable that the panel sets',
    variable({ env_variable: 'SERVER_PORT' }),
    ['unused: variables.0.env_variable SERVER_PORT is set by the panel itself', NAMELESS],
  ],
  [
    'a variable of the system',
    variable({ env_variable: 'HOSTNAME' }),
    [
      'changed: variables.0.env_variable HOSTNAME is a name of the system; it is SERVER_HOSTNAME here, in startup lines and files too',
      NAMELESS,
    ],
  ],
  [
    'a variable that stands twice',
    egg({ variables: [VARIABLE, { ...VARIABLE, name: 'Again' }] }),
    ['unused: variables.1.env_variable is used twice: WORLD'],
  ],
  [
    'a rule that nobody knows',
    variable({ rules: 'required|hex_color' }),
    [
      "rule: variables.0.rules.1 has no rule 'hex_color'; write one rule per entry; values of WORLD are not checked by it",
    ],
  ],
  [
    'a rule without its number',
    variable({ rules: 'required|max' }),
    ["rule: variables.0.rules.1 is malformed: 'max'; values of WORLD are not checked by it"],
  ],
  [
    'a rule with an expression that cannot be used',
    variable({ rules: 'required|regex:/(?<!a)b/' }),
    [
      'rule: variables.0.rules.1 is no regular expression of RE2: error parsing regexp: invalid named capture: `(?<!a)b`; values of WORLD are not checked by it',
    ],
  ],
  [
    'a default that breaks its rules',
    variable({ default_value: 'x'.repeat(30) }),
    ['changed: variables.0.default_value breaks its own rules (must be at most 20 characters); it is empty here'],
  ],
  [
    'rules that are a number',
    variable({ rules: 7 }),
    ['refused: variables.0.rules must be a list of rules, or a text with | between them'],
  ],
  ['variables that are an object', egg({ variables: { a: 1 } }), ['refused: variables must be a list of variables']],
  [
    'more variables than a template has',
    egg({ variables: Array.from({ length: 201 }, (_, at) => ({ ...VARIABLE, env_variable: `V${at}` })) }),
    ['refused: variables must have at most 200 entries'],
  ],
  [
    'more features than are read',
    egg({ features: Array.from({ length: 501 }, (_, at) => `f${at}`) }),
    ['refused: features must have at most 500 entries'],
  ],
  ['a version that is null', egg({ meta: null }), ['warning: meta.version is missing; it looks like PTDL_v2']],
  ['features that are a number', egg({ features: 3 }), ['refused: features must be a list']],
  [
    'a pattern of files that is too long',
    egg({ file_denylist: ['x'.repeat(600), '*.key'] }),
    ['unused: file_denylist has entries that are empty or longer than 500 characters'],
  ],
  [
    'more than a template has room for',
    egg({
      docker_images: Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`Image ${at}`, `example/game:${at}`])),
      tags: Array.from({ length: 52 }, (_, at) => `tag-${at}`),
      meta: { version: 'PLCN_v1' },
    }),
    [
      'unused: docker_images has 51 entries; the first 50 are kept',
      'unused: tags has 52 entries; the first 50 are kept',
    ],
  ],
  [
    'more files than are changed before a start',
    files(
      Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`${at}.txt`, { parser: 'file', find: { a: 'b' } }])),
    ),
    ['unused: config.files has 51 files; the first 50 are kept'],
  ],
  [
    'values of a file that cannot be kept: the others are',
    files({ 'a.txt': { parser: 'file', find: { a: 'x'.repeat(9000), ['k'.repeat(1001)]: 'b', '': 'c', d: 'e' } } }),
    [
      'unused: config.files.a.txt.find.a cannot be kept: value Too big: expected string to have <=8192 characters',
      `unused: config.files.a.txt.find.${'k'.repeat(200)} cannot be kept: key Too big: expected string to have <=1000 characters`,
      'unused: config.files.a.txt.find. cannot be kept: key Too small: expected string to have >=1 characters',
    ],
  ],
  [
    'more values than a file may have',
    files({
      'a.txt': { parser: 'file', find: Object.fromEntries(Array.from({ length: 501 }, (_, at) => [`k${at}`, 'b'])) },
    }),
    ['unused: config.files.a.txt.find has 501 values; the first 500 are kept'],
  ],
  [
    'one file under two names',
    files({ 'a.txt': { parser: 'file', find: { a: 'b' } }, './a.txt': { parser: 'file', find: { c: 'd' } } }),
    ['unused: config.files.a.txt is listed more than once; the last one counts'],
  ],
  [
    'a value that single quotes keep from the program',
    egg({ startup: "./quarry --world '{{WORLD}}'" }),
    [
      'warning: startup has a placeholder in single quotes, where a program gets its name and no value unless it is a shell: put it into double quotes',
    ],
  ],
  [
    'fields of this panel that choose what is run, and where',
    egg({ runtimes: ['process'], mounts: [{ source: '/etc', target: 'etc', readOnly: true }], nestId: null }),
    [
      'warning: runtimes is no field of eggs, and is taken over as that of a template',
      'warning: mounts is no field of eggs, and is taken over as that of a template',
    ],
  ],
  ['a field of the future', egg({ hologram: true }), ['kept: hologram means nothing to this panel; the export has it']],
]

it('an egg that is whole has nothing said of it', () => {
  expect(findings(egg({}))).toEqual([])
})

it.each(BROKEN)('a report is right about %s', (_what, text, expected) => {
  expect(findings(text)).toEqual(expected)
})

it('a value of a file that cannot be kept leaves the others of it', () => {
  const find = { a: 'x'.repeat(9000), port: 25565 }
  const { template } = importEgg(JSON.parse(files({ 'a.txt': { parser: 'file', find } })))
  expect(template.configFiles).toMatchObject([{ path: 'a.txt', set: [{ key: 'port', value: 25565 }] }])
})
