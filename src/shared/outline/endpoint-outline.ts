import type { Endpoint } from '../kernel/contract.ts'
import { readByShape, type Shape, UNFIT } from './shape.ts'

/** What a client needs of an endpoint or a stream to ask it. */
export type OutlineFields = Readonly<Record<string, string | number | boolean>>

/** Where an endpoint's answer is described: a table that is read when it is first needed, and the place in it. */
export interface AnswerShape {
  readonly table: () => Shape
  readonly root: number
}

/** The text of a table of shapes as the table. */
export function shapeTable(text: string): () => Shape {
  let shape: Shape | undefined
  return () => {
    shape ??= JSON.parse(text) as Shape // written by the build
    return shape
  }
}

/**
 * Stands for an endpoint in the command line: it says how to ask, and reads answers by their shape. Where that does not vouch for one, the
 * endpoint itself (`whole`) is loaded and decides, so that what is accepted, refused and said about it is the same.
 */
export function outline(
  fields: OutlineFields,
  answer: AnswerShape | null,
  whole: () => Promise<Pick<Endpoint, 'response'> | undefined>,
) {
  const parseAsync = async (data: unknown): Promise<unknown> => {
    const read = answer === null ? UNFIT : unhurried(() => readByShape(answer.table(), answer.root, data))
    if (read !== UNFIT) return read
    const endpoint = await whole()
    if (endpoint === undefined) throw new Error(`there is no endpoint ${fields['id']}`)
    return endpoint.response.parseAsync(data)
  }
  const made = { ...fields, response: { parseAsync } }
  for (const part of ['params', 'query', 'body', 'events']) {
    Object.defineProperty(made, part, {
      get: () => {
        throw new Error(`the ${part} of ${fields['id']} are not in its outline; import a schema of their own`)
      },
    })
  }
  return made
}

/** So much of a function's code V8 runs before it optimizes it, in bytes: by itself in Node 20, and while an answer is read. */
const [USUAL_BUDGET, LARGE_BUDGET] = [66 * 1024, 64 * 1024 * 1024]

/**
 * Runs what is soon done without V8 beginning to optimize it: a page of rows is just enough for that, and it takes longer than to read them.
 * The budget is put back because V8 takes compiled code that is loaded later only under the flags that it was made under.
 */
function unhurried<T>(work: () => T): T {
  const { setFlagsFromString } = process.getBuiltinModule('node:v8')
  setFlagsFromString(`--interrupt-budget=${LARGE_BUDGET}`)
  try {
    return work()
  } finally {
    setFlagsFromString(`--interrupt-budget=${USUAL_BUDGET}`)
  }
}
