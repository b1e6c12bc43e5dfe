import { type Document, isMap, isScalar, isSeq, parseAllDocuments } from 'yaml'
import { ConfigFileProblem } from './config-file-problem.ts'
import { replacement, type Setting } from './setting.ts'
import { typedValue } from './typed-value.ts'
import { EVERY, type Step, stepsOf } from './value-path.ts'

/** Sets values of a YAML file. Comments, order and what is not named stay; absent maps and keys are added. */
export function changeYaml(text: string, settings: readonly Setting[]): string {
  const documents = parseAllDocuments(text, { schema: 'core', keepSourceTokens: false })
  const [document, ...others] = Array.isArray(documents) ? documents : []
  if (document === undefined) return changeYaml('{}\n', settings)
  if (others.length > 0) throw new ConfigFileProblem('holds several YAML documents')
  const [error] = document.errors
  if (error !== undefined)
    throw new ConfigFileProblem(`is not valid YAML: ${(error.message.split('\n')[0] ?? '').slice(0, 200)}`)
  for (const setting of settings) {
    for (const place of placesOf(document, stepsOf(setting.key))) change(document, place, setting)
  }
  return document.toString({ lineWidth: 0 })
}

/** The places that a path with wildcards names in this document. */
function placesOf(document: Document, steps: readonly Step[]): (string | number)[][] {
  let places: (string | number)[][] = [[]]
  for (const step of steps) {
    places = places.flatMap((place) => {
      if (step !== EVERY) return [[...place, step]]
      const node = place.length === 0 ? document.contents : document.getIn(place, true)
      if (isSeq(node)) return node.items.map((_, index) => [...place, index])
      if (!isMap(node)) return []
      return node.items.map(({ key }) => [...place, String(isScalar(key) ? key.value : key)])
    })
  }
  return places
}

function change(document: Document, place: readonly (string | number)[], setting: Setting): void {
  for (let length = 1; length < place.length; length++) {
    const node = document.getIn(place.slice(0, length), true)
    if (isScalar(node) && node.value !== null) {
      throw new ConfigFileProblem(`has a single value where ${setting.key} needs a map or a list`)
    }
    if (isScalar(node)) document.deleteIn(place.slice(0, length))
  }
  const current: unknown = document.getIn(place)
  const value = replacement(setting, current === undefined ? undefined : String(current))
  if (value === undefined) return
  document.setIn(place, typedValue(value, current))
}
