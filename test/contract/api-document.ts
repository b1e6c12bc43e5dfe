import type { ErrorObject, ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { type Endpoint, isDeclared } from '../../src/shared/kernel/contract.ts'
import { isObject, type Reply, send } from './http-call.ts'

const ID = 'panel'

/**
 * The OpenAPI document that a panel serves, and judgement by it: ajv reads the schemas as a client that was made from the
 * document would. A keyword or format that JSON Schema does not know throws, and so does a reference that leads nowhere.
 */
export class ApiDocument {
  readonly #document: object
  readonly #judges = new Map<string, ValidateFunction>()
  // Most judges are made for one answer: to make them short would take longer than they run.
  readonly #ajv = new Ajv2020({
    ...{ allErrors: true, allowUnionTypes: true, unicodeRegExp: true },
    ...{ inlineRefs: false, code: { optimize: false } },
  })

  static async of(url: string): Promise<ApiDocument> {
    const { json } = await send({ method: 'GET', url: `${url}/api/openapi.json` })
    return new ApiDocument(json ?? {})
  }

  constructor(document: object) {
    this.#document = document
    formats.default(this.#ajv)
    this.#ajv.addVocabulary(Object.keys(document)) // the document around the schemas is no schema
    this.#ajv.addSchema(document, ID, undefined, false)
  }

  /** What an answer breaks of what is said of it, one sentence each; empty when it fits. */
  ofAnswer(endpoint: Endpoint, { status, json }: Reply): string[] {
    return this.ofSchema([...placeOf(endpoint), 'responses', String(status), ...JSON_SCHEMA], json)
  }

  /** The same for what is sent. */
  ofBody(endpoint: Endpoint, body: unknown): string[] {
    if (!isDeclared(endpoint.body) || endpoint.accepts !== 'json') return []
    if (body === undefined && this.#at([...placeOf(endpoint), 'requestBody', 'required']) === false) return []
    return this.ofSchema([...placeOf(endpoint), 'requestBody', ...JSON_SCHEMA], body)
  }

  /** What a value breaks of the schema at this place of the document. */
  ofSchema(place: readonly string[], value: unknown): string[] {
    const check = this.compile(place)
    return check(value) ? [] : (check.errors ?? []).map(sentence)
  }

  /** The judge of a place; throws where there is no sound schema. */
  compile(place: readonly string[]): ValidateFunction {
    const pointer = place.map((name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
    const judge = this.#judges.get(pointer) ?? this.#ajv.compile({ $ref: `${ID}#/${pointer}` })
    this.#judges.set(pointer, judge)
    return judge
  }

  #at(place: readonly string[]): unknown {
    return place.reduce<unknown>((here, name) => (isObject(here) ? here[name] : undefined), this.#document)
  }
}

const JSON_SCHEMA = ['content', 'application/json', 'schema']

function placeOf({ path, method }: Endpoint): string[] {
  return ['paths', path.replace(/:(\w+)/g, '{$1}'), method.toLowerCase()]
}

function sentence({ instancePath, message, params }: ErrorObject): string {
  return `$${instancePath} ${message} ${JSON.stringify(params)}`
}
