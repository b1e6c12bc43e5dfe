import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { EggFormat } from '../../src/shared/api/template-eggs.ts'
import { DocumentProblem, readDocument } from '../../src/shared/templates/document.ts'
import { exportEgg } from '../../src/shared/templates/egg-export.ts'
import { EggProblem, type ImportedEgg, importEgg } from '../../src/shared/templates/egg-import.ts'
import { skippedUnless } from '../skips.ts'
import { ALL_EGGS, HAS_OTHERS, OWN_EGGS, ownEgg } from './egg-files.ts'

const AT = '2026-01-01T00:00:00.000Z'
const imported = (name: string): ImportedEgg => importEgg(readDocument(ownEgg(name)).value)
const notes = ({ report }: ImportedEgg, kind: string) =>
  report.notes.filter((note) => note.kind === kind).map(({ field, message }) => `${field} ${message}`)

describe('an egg', () => {
  it('of every version, in each way that exporters write it, is among those of this test', () => {
    const written = OWN_EGGS.map(({ name, text }) => {
      const { format } = importEgg(readDocument(text).value).report
      return `${format} ${name.slice(name.lastIndexOf('.') + 1)}`
    })
    const formats = ['PTDL_v1 json', 'PTDL_v2 json', 'PLCN_v1 json', 'PLCN_v2 json', 'PLCN_v2 yaml', 'PLCN_v3 json']
    expect([...new Set(written)].sort()).toEqual([...formats, 'PLCN_v3 yaml'].sort())
    expect(new Set(written.map((one) => one.split(' ')[0]))).toEqual(new Set(EggFormat.options))
  })

  it.skipIf(!HAS_OTHERS)(
    `of other people is among them${skippedUnless(HAS_OTHERS, 'real eggs beside the repository')}`,
    () => {
      expect(ALL_EGGS.length).toBeGreaterThan(OWN_EGGS.length + 10)
    },
  )

  it.each(ALL_EGGS)('is exported equal to what was imported: $name', ({ name, text }) => {
    const { template, document } = importEgg(readDocument(text).value)
    const egg = exportEgg({ template, egg: document, exportedAt: AT })
    // The text 1.10, written without quotes, is no number here.
    const expected = JSON.stringify(parse(text)).replace('"default_value":1.1,', '"default_value":"1.10",')
    expect(egg).toEqual(JSON.parse(expected))
    expect(name).toBeTruthy()
  })

  it.each(ALL_EGGS)('means the same after an export to any other version: $name', ({ text }) => {
    const { template, document } = importEgg(readDocument(text).value)
    for (const format of EggFormat.options) {
      const egg = exportEgg({ template, egg: document, exportedAt: AT, format })
      const again = importEgg(egg)
      expect(again.report.format).toBe(format)
      const { features, tags, startupCommands, version: _, images, ...rest } = again.template
      const { features: f, tags: t, startupCommands: s, version: _v, images: i, ...before } = template
      expect(rest).toEqual(before)
      expect([features, tags, images.map(({ image }) => image)]).toEqual([f, t, i.map(({ image }) => image)])
      // Formats before the last one know one line.
      if (format === 'PLCN_v3') expect(startupCommands).toEqual(s)
    }
  })

  it('becomes a template with all that a server needs', () => {
    const egg = imported('ptdl-v1.json')
    expect(egg.template).toMatchObject({
      name: 'Quarry',
      author: 'quarry@example.com',
      description: 'Dig and build.\r\nTogether.',
      version: 'PTDL_v1',
      runtimes: ['docker'],
      image: 'registry.example/games:source',
      images: [
        { name: 'registry.example/games:source', image: 'registry.example/games:source' },
        { name: '~registry.example/games:local', image: 'registry.example/games:local', local: true },
      ],
      startup:
        './quarry -game {{GAME | split}} -port {{SERVER_PORT | split}} +map {{MAP | split}}  ' +
        `$( [ "$FAST" == "1" ] || printf %s '-slow' ) {{EXTRA | split}}`,
      stopCommand: 'quit',
      startupDetection: { done: [{ kind: 'contains', value: 'Quarry is open' }], stripAnsi: true },
      installImage: 'registry.example/installers:debian',
      installEntrypoint: 'bash',
      logFiles: ['logs/quarry.log'],
      features: { steam_disk_space: true, gsl_token: true },
    })
    expect(egg.template.installScript).toMatch(/^#!\/bin\/bash\n.*\n$/s)
    expect(egg.template.installScript).not.toContain('\r')
    expect(egg.template.configFiles).toEqual([
      {
        path: 'server.properties',
        parser: 'properties',
        create: true,
        set: [
          { key: 'server-ip', value: '0.0.0.0' },
          { key: 'server-port', value: '{{server.build.default.port}}' },
          { key: 'motd', value: '{{server.build.env.WORLD_NAME}}' },
        ],
      },
      {
        path: 'config.yml',
        parser: 'yaml',
        create: true,
        set: [
          { key: 'listeners[0].host', value: '0.0.0.0:{{server.build.default.port}}' },
          {
            key: 'servers.*.address',
            ifValue: 'regex:^(127\\.0\\.0\\.1|localhost)(:\\d{1,5})?$',
            value: '{{config.docker.interface}}$2',
          },
          { key: 'online_mode', value: true },
          { key: 'max_players', value: 20 },
        ],
      },
    ])
    expect(egg.template.variables[1]).toEqual({
      name: 'MAP',
      displayName: 'Map',
      description: 'The map\nto start with',
      default: 'pit_1',
      required: true,
      input: 'text',
      rules: ['required', 'regex:/^(pit|hill)_\\d{1,2}$/', 'max:12'],
      uncheckedRules: [],
      userViewable: true,
      userEditable: true,
      secret: false,
    })
    expect(egg.report.notes.map(({ kind, field }) => [kind, field])).toEqual([
      ['split', 'startup'],
      ['warning', 'startup'],
      ['kept', 'config.logs'],
    ])
  })

  it('says what it means otherwise here, and what nothing is done with', () => {
    const egg = imported('ptdl-v2.json')
    expect(egg.template.variables.map(({ name }) => name)).toEqual([
      'JAR',
      'SERVER_HOSTNAME',
      'MOTD',
      'SEED',
      'MAP_URL',
      'COLOUR',
      'TOKEN',
      'ARGS',
    ])
    expect(notes(egg, 'changed')).toEqual([
      'variables.1.env_variable HOSTNAME is a name of the system; it is SERVER_HOSTNAME here, in startup lines and files too',
      'variables.7.default_value breaks its own rules (must be exactly 32 characters); it is empty here',
    ])
    expect(notes(egg, 'unused')).toEqual(['variables.3.env_variable SERVER_PORT is set by the panel itself'])
    expect(notes(egg, 'rule')).toEqual([
      "variables.6.rules.1 has no rule 'hex_color'; write one rule per entry; values of COLOUR are not checked by it",
    ])
    expect(egg.template.variables[5]).toMatchObject({ rules: ['nullable', 'max:20'], uncheckedRules: ['hex_color'] })
    expect(egg.template).toMatchObject({
      stopCommand: '',
      sendSignalTo: 'SIGINT',
      fileDenylist: ['*.secret', '/admin/'],
    })
    expect(egg.template.startup).toContain('+hostname "{{SERVER_HOSTNAME}}" --motd "{{MOTD}}"')

    const odd = imported('plcn-v1.json')
    expect(notes(odd, 'unused')).toEqual([
      'variables.1.env_variable LD_PRELOAD changes how programs are loaded and is never set by a template',
      'config.startup.done is no regular expression of RE2: error parsing regexp: invalid named capture: `(?<=x)y`; the server is running without it after 120 s',
      'config.files.../../etc/passwd cannot be kept: path must be a path inside the server folder: relative, without .. and control characters',
      'config.files.odd.cfg.parser is no parser of this panel: gson',
    ])
    expect(odd.template.configFiles.map(({ path }) => path)).toEqual(['server.properties'])
    expect(odd.template.variables[0]?.rules).toEqual(['required', 'string', 'regex:/^[a-z|]{1,20}$/'])
    expect(odd.template.startup).toBe('./quarry --port {{SERVER_PORT | split}} --world {{WORLD_NAME | split}}')

    const newest = imported('plcn-v3.json')
    expect(notes(newest, 'kept')).toEqual([
      'x_future means nothing to this panel; the export has it',
      'icon is an icon; the export has it',
    ])
    expect(newest.template).toMatchObject({
      startup: './quarry {{ARGS | split}}',
      startupCommands: [{ name: 'Fast', command: './quarry --fast {{ARGS | split}}' }],
      stopCommand: '',
      sendSignalTo: 'SIGKILL',
    })
  })

  it('of YAML keeps the texts that its exporter wrote as numbers', () => {
    const { template } = imported('plcn-v2.yaml')
    const defaults = Object.fromEntries(template.variables.map((one) => [one.name, one.default]))
    expect(defaults).toEqual({ VERSION: '1.10', LEVEL: '25565', SWITCH: 'true', NOTHING: '' })
    expect(template.configFiles[0]?.set).toEqual([
      { key: 'server.port', value: '{{server.allocations.default.port}}' },
      { key: 'server.public', value: true },
      { key: 'server.slots', value: 20 },
    ])
    expect(template.configFiles[1]).toMatchObject({ path: 'notes.txt', create: false })
    expect(imported('plcn-v3.yaml').template.variables.map(({ name }) => name)).toEqual(['LOG', 'JAR'])
  })

  it('is exported with what was edited, and nothing else changed', () => {
    const { template, document } = imported('ptdl-v2.json')
    const variables = template.variables.map((one) => (one.name === 'SEED' ? { ...one, default: '8' } : one))
    const startup = template.startup.replace('java ', 'java -server ')
    const egg = exportEgg({ template: { ...template, startup, variables }, egg: document, exportedAt: AT })
    const again = importEgg(egg)
    expect(again.template).toEqual({ ...template, startup, variables })
    const { variables: _v, startup: line, ...rest } = egg
    const { variables: _b, startup: _s, ...before } = document
    expect(rest).toEqual(before)
    expect(line).not.toContain('split')
    const seed = (egg['variables'] as { env_variable: string; default_value: string }[]).find(
      (one) => one.env_variable === 'SEED',
    )
    expect(seed).toMatchObject({ default_value: '8', field_type: 'text' })
  })
})

describe('what is no egg, or a broken one', () => {
  const whole = readDocument(ownEgg('ptdl-v2.json')).value
  const broken = (change: Record<string, unknown>): string[] => {
    try {
      importEgg({ ...whole, ...change })
      return []
    } catch (error) {
      if (!(error instanceof EggProblem)) throw error
      return error.details.map(({ field, message }) => `${field} ${message}`.trim())
    }
  }

  it('is refused with every reason and its field', () => {
    expect(broken({ meta: { version: 'PTDL_v9' } })).toEqual([
      'is of a version that this panel does not read; it reads PTDL_v1, PTDL_v2, PLCN_v1, PLCN_v2, PLCN_v3',
    ])
    expect(() => importEgg({ name: 'x', startup: 'y' })).toThrow('is no egg of Pterodactyl or Pelican')
    expect(broken({ startup: undefined })).toEqual(['startup is required'])
    expect(broken({ docker_images: {} })).toEqual(['docker_images names no image; one is required'])
    expect(broken({ config: { files: '{"a":' } })[0]).toMatch(/^config\.files is not valid JSON/)
    expect(broken({ startup: 'cat <<EOF\n{{JAR}}' })[0]).toMatch(/^startup has a here-document/)
    expect(
      broken({ name: '', variables: [{ env_variable: 'A B' }, { env_variable: 'C', rules: 7 }], features: 3 }),
    ).toEqual([
      'name is required',
      'features must be a list',
      'variables.0.env_variable must be letters, digits and _',
      'variables.1.rules must be a list of rules, or a text with | between them',
    ])
  })

  it('is recognised without a version, by its parts', () => {
    const { meta: _, ...untold } = whole
    const { report } = importEgg(untold)
    expect([report.format, report.notes[0]]).toEqual([
      'PTDL_v2',
      { kind: 'warning', field: 'meta.version', message: 'is missing; it looks like PTDL_v2' },
    ])
  })

  it.each([
    [
      'a bomb of aliases',
      `a: &a [1]\n${Array.from({ length: 30 }, (_, i) => `b${i}: &b${i} [*${i === 0 ? 'a' : `b${i - 1}`}, *${i === 0 ? 'a' : `b${i - 1}`}]`).join('\n')}`,
      'aliases|too many values',
    ],
    ['a long list under many names', `a: &a [${'1,'.repeat(2000)}1]\nb: [${'*a,'.repeat(90)}1]`, 'too many values'],
    ['an alias of itself', 'a: &a [*a]', 'levels deep|aliases'],
    ['lists in lists', '- '.repeat(50_000), 'levels deep'],
    ['brackets of YAML', `a: ${'['.repeat(50_000)}`, 'levels deep'],
    ['brackets of JSON', `{"a":${'['.repeat(50_000)}`, 'levels deep'],
    ['a tag', 'a: !!js/function x\nb: !eval y', 'the tag|tag'],
    ['a key twice', 'a: 1\na: 2', 'the key a twice'],
    ['a prototype', '{"__proto__": {"a": 1}}', 'named __proto__'],
    ['a prototype in YAML', '__proto__: 1', 'named __proto__'],
    ['two documents', 'a: 1\n---\nb: 2', 'one YAML document'],
    ['a list', '[1]', 'one object'],
    ['nothing', '', 'one object'],
    ['too much', `a: "${'x'.repeat(1024 * 1024)}"`, 'larger than 1024 KiB'],
    [
      'a hundred thousand keys',
      Array.from({ length: 100_000 }, (_, i) => `a${i}: 1`)
        .join('\n')
        .slice(0, 1_000_000),
      'too many values',
    ],
  ])('is not read further than it has to be: %s', (_what, text, reason) => {
    const before = performance.now()
    expect(() => readDocument(text)).toThrow(DocumentProblem)
    expect(() => readDocument(text)).toThrow(new RegExp(reason))
    expect(performance.now() - before).toBeLessThan(2000)
  })
})
