import type { WorldOptions } from './options.ts'
import type { Random } from './random.ts'
import type { SimEgg, SimVariable } from './rows.ts'

/** The eggs of a source: with inheritance, the same name twice, variables as people write them, and one that cannot be shown. */
export function eggsOf(random: Random, { poisonEgg, oddities }: WorldOptions): SimEgg[] {
  let variableId = 0
  const variable = (
    eggId: number,
    envVariable: string,
    defaultValue: string,
    rules: string[],
    more: Partial<SimVariable> = {},
  ): SimVariable => ({
    description: 'What the server is given',
    userViewable: true,
    userEditable: true,
    id: ++variableId,
    eggId,
    name: `Variable ${envVariable}`,
    envVariable,
    defaultValue,
    rules,
    ...more,
  })
  const egg = (id: number, nestId: number, name: string, more: Partial<SimEgg> = {}): SimEgg => ({
    id,
    uuid: random.uuid(),
    nestId,
    name,
    author: 'eggs@source.example',
    description: `How ${name} is run`,
    dockerImages: { 'Java 17': 'registry.example/yolks:java_17', 'Java 21': 'registry.example/yolks:java_21' },
    files: { 'server.properties': { parser: 'properties', find: { 'server-port': '{{server.build.default.port}}' } } },
    startupDone: { done: 'Done (' },
    stop: 'stop',
    logs: {},
    fileDenylist: [],
    configFrom: null,
    scriptFrom: null,
    startup: 'java -Xms128M -Xmx{{SERVER_MEMORY}}M -jar {{SERVER_JARFILE}}',
    install: '#!/bin/ash\nmkdir -p /mnt/server\n',
    installEntry: 'ash',
    installImage: 'registry.example/installers:alpine',
    features: ['eula'],
    tags: ['minecraft'],
    variables: [],
    ...more,
  })
  const odd = oddities
    ? [
        variable(1, 'MOTD', 'a|b', ['required', 'string', 'regex:/^[a-z|A-Z ]{1,40}$/']),
        variable(1, 'WEB_MAP', '', ['nullable', 'active_url', 'starts_with:http,https']),
        variable(1, 'GAME_MODE', '0', ['in:0,1,"2,5"', 'sometimes']),
        variable(1, 'lower_case', 'yes', ['boolean', 'required_if:MOTD,a|b']),
        variable(1, 'HIDDEN_SEED', '42', ['numeric'], { userViewable: false, userEditable: false }),
      ]
    : []
  const inherits = { files: {}, startupDone: null, stop: null, logs: null, install: null, configFrom: 1, scriptFrom: 1 }
  return [
    egg(1, 1, 'Paper', {
      variables: [variable(1, 'SERVER_JARFILE', 'server.jar', ['required', 'string', 'max:40']), ...odd],
    }),
    egg(2, 1, 'Paper child', {
      ...inherits,
      variables: [variable(2, 'SERVER_JARFILE', 'child.jar', ['required', 'string'])],
    }),
    egg(3, 2, 'Quarry', {
      files: {},
      startupDone: { done: ['Quarry is open'] },
      stop: '^C',
      startup: './quarry --name "{{QUARRY_NAME}}"',
      features: [],
      tags: ['other'],
      variables: [variable(3, 'QUARRY_NAME', 'pit', ['required', 'string', 'max:20'])],
    }),
    // A second egg of a name that another nest has too.
    egg(4, 2, 'Paper', {
      tags: ['other'],
      variables: [variable(4, 'SERVER_JARFILE', 'paper.jar', ['required', 'string'])],
    }),
    ...(poisonEgg ? [egg(5, 1, 'Broken', { files: null, configFrom: 1 })] : []),
  ]
}
