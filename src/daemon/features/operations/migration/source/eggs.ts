import { z } from 'zod'
import type { SourceEgg } from './model.ts'
import { type Attributes, Exact, Id, included, includedOne, Line, Texts, Uuid, Values } from './rows.ts'

const Egg = z.looseObject({
  id: Id,
  uuid: Uuid,
  name: Line(191),
  author: Line(),
  description: Exact(8000),
  docker_image: Exact(500),
  docker_images: Values,
  features: Texts,
  tags: Texts,
  startup: Exact(16_384),
  startup_commands: Values,
  config: Values,
  script: Values,
})
const Variable = z.looseObject({ attributes: z.record(z.string(), z.unknown()) })
const SHOWN_OF_VARIABLES = [
  'name',
  'description',
  'env_variable',
  'default_value',
  'user_viewable',
  'user_editable',
  'rules',
  'sort',
]
const SHOWN_OF_CONFIG = ['files', 'startup', 'logs', 'stop'] as const

/** An egg as the source would export it; what it has from others is filled in. */
export function eggOf(
  attributes: Attributes,
  { nestId, isPelican }: { nestId: string; isPelican: boolean },
): SourceEgg {
  const row = Egg.parse(attributes)
  const inherited = includedOne(attributes, 'config') ?? {}
  const script = { ...row.script, ...(includedOne(attributes, 'script') ?? {}) }
  const image = row.docker_image
  const images = Object.keys(row.docker_images).length > 0 ? row.docker_images : { [image]: image }
  const commands = Object.keys(row.startup_commands).length > 0 ? row.startup_commands : { Default: row.startup }
  const variables = (included(attributes, 'variables') ?? []).map((one) => {
    const all = Variable.parse(one).attributes
    return Object.fromEntries(SHOWN_OF_VARIABLES.filter((name) => name in all).map((name) => [name, all[name]]))
  })
  return {
    id: row.id,
    uuid: row.uuid,
    nestId,
    name: row.name,
    mustExist: false,
    document: {
      meta: { version: isPelican ? 'PLCN_v3' : 'PTDL_v2', update_url: null },
      uuid: row.uuid,
      name: row.name,
      author: row.author,
      description: row.description,
      features: row.features,
      docker_images: images,
      file_denylist: row.config['file_denylist'] ?? [],
      ...(isPelican ? { tags: row.tags, startup_commands: commands } : { startup: row.startup }),
      config: Object.fromEntries(
        SHOWN_OF_CONFIG.map((name) => [name, filled(inherited[name]) ?? filled(row.config[name]) ?? null]),
      ),
      scripts: {
        installation: { script: script['install'], container: script['container'], entrypoint: script['entry'] },
      },
      variables,
    },
  }
}

/** PHP answers an empty map as an empty list. */
const filled = (value: unknown): unknown => (Array.isArray(value) && value.length === 0 ? null : value)
