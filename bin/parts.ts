import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { Script } from 'node:vm'

/** What a part gives to others. */
interface Part {
  exports: object
}

/**
 * A part as a function of what it asks for others by. What V8 has made of `import()` knows nobody any more who answers it, so a part
 * calls `late` in its place.
 */
type Run = (
  exports: object,
  require: (id: string) => unknown,
  module: Part,
  file: string,
  folder: string,
  late: (id: string) => Promise<unknown>,
) => void

/** V8 reads what another V8, or one for another processor, has written without a word: the name keeps them apart. */
const CACHE = `.${process.version}-${process.arch}.cache`

/** The parts of the program in a folder, each of which is run when one asks for it first. */
export interface Parts {
  /** What the part gives to others; runs it, unless it was. */
  load(name: string): object
  /** Writes down what V8 has made of the texts of the parts so far, for later starts; of parts that were opened for that. */
  cache(): void
}

/**
 * Loads parts as Node loads modules of the older kind, but by what V8 has made of their texts when the program was built: to make
 * it takes half of a start. A part has a name of its own for each text, so what lies beside it is of this text; it was
 * written by whoever wrote the part, and where it does not fit this V8 it is not used.
 */
export function openParts(folder: string, { isBuild = false } = {}): Parts {
  const outside = createRequire(join(folder, 'panel.js'))
  const loaded = new Map<string, Part>()
  const scripts = new Map<string, Script>()

  const require = (id: string): unknown => {
    if (id.startsWith('./')) return load(id.slice(2))
    // Node's own `require` makes all that a module exports ready for imports, also what hardly anybody uses.
    return id.startsWith('node:') ? process.getBuiltinModule(id) : outside(id)
  }
  const load = (name: string): object => {
    const known = loaded.get(name)
    if (known !== undefined) return known.exports
    const filename = join(folder, name)
    const cachedData = read(filename + CACHE)
    const script = new Script(readFileSync(filename, 'latin1'), {
      filename: name, // its path would be written into what is published
      ...(cachedData === undefined ? {} : { cachedData }),
    })
    if (isBuild) scripts.set(filename, script)
    const part: Part = { exports: {} }
    loaded.set(name, part)
    const run = script.runInThisContext() as Run // that is what its text is
    run(part.exports, require, part, filename, folder, (id) => import(id))
    return part.exports
  }
  return {
    load,
    cache: () => {
      for (const [filename, script] of scripts) {
        writeFileSync(`${filename}.new`, script.createCachedData())
        renameSync(`${filename}.new`, filename + CACHE)
      }
    },
  }
}

function read(file: string): Buffer | undefined {
  try {
    return readFileSync(file)
  } catch {
    return undefined // of a build that was made for another V8, or without running it
  }
}
