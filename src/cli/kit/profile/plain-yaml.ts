/** A mapping of YAML with texts, numbers, switches and mappings. */
interface Mapping {
  [key: string]: string | number | boolean | Mapping
}

const LINE = /^( *)([A-Za-z_][\w.@-]*):(?: (\S+))?$/
/** What is neither a text nor a switch in one of YAML's ways of writing it. */
const OTHER = /^(?:null|true|false|yes|no|on|off|y|n)$/i

/**
 * The value of YAML of the plainest kind, as this program writes its own files: mappings, one below the other, of words, paths, URLs, times,
 * whole numbers and switches. `undefined` for all else, which a parser of YAML is for: to load one takes longer than to read the file.
 */
export function plainYaml(text: string): unknown {
  const root: Mapping = {}
  const open = [root]
  const lines = text.split('\n')
  if (lines.pop() !== '' || lines.length === 0) return undefined
  let isOpening = false
  for (const line of lines) {
    const found = LINE.exec(line)
    if (found === null) return undefined
    const [, indent = '', key = '', word] = found
    const depth = indent.length / 2
    // A mapping that has been opened has something in it, two blanks further in.
    if (isOpening ? depth !== open.length - 1 : depth > open.length - 1 || !Number.isInteger(depth)) return undefined
    open.length = depth + 1
    const inner = open[depth]
    const value = word === undefined ? {} : scalar(word)
    if (inner === undefined || OTHER.test(key) || Object.hasOwn(inner, key) || key === '__proto__') return undefined
    if (value === undefined) return undefined
    inner[key] = value
    isOpening = word === undefined
    if (typeof value === 'object' && isOpening) open.push(value)
  }
  return isOpening ? undefined : root
}

function scalar(word: string): string | number | boolean | Mapping | undefined {
  if (word === '{}') return {}
  if (word === 'true' || word === 'false') return word === 'true'
  if (/^(?:0|[1-9]\d{0,8})$/.test(word)) return Number(word)
  if (/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(word)) return word
  return /^[A-Za-z/][\w./:@+=-]*$/.test(word) && !word.endsWith(':') && !OTHER.test(word) ? word : undefined
}
