const MOST_CHARACTERS = 300
const HOST = /^[A-Za-z0-9][A-Za-z0-9.-]*(?::\d{1,5})?$/
const PART = /^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*$/
const TAG = /^\w[\w.-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/

/**
 * Whether this is the name of an image as registries take it: `[host[:port]/]path[:tag][@sha256:…]`. What is none could mean
 * something else where it becomes part of a path of the engine's API.
 */
export function isImageName(name: string): boolean {
  if (name.length > MOST_CHARACTERS) return false
  const [tagged = '', digest, ...more] = name.split('@')
  if (more.length > 0 || (digest !== undefined && !DIGEST.test(digest))) return false
  const colon = tagged.lastIndexOf(':')
  const hasTag = colon > tagged.lastIndexOf('/')
  if (hasTag && !TAG.test(tagged.slice(colon + 1))) return false
  const [first = '', ...rest] = (hasTag ? tagged.slice(0, colon) : tagged).split('/')
  if (rest.length === 0) return PART.test(first)
  return (isHost(first) ? HOST : PART).test(first) && rest.every((part) => PART.test(part))
}

/** The registry of an image: what stands before the first slash where that is a host; else Docker's own. */
export function registryOf(name: string): string {
  const [first = '', ...rest] = name.split('/')
  return rest.length > 0 && isHost(first) ? first : 'docker.io'
}

/** The name with the tag that counts without one. */
export function withTag(name: string): string {
  return name.includes('@') || name.lastIndexOf(':') > name.lastIndexOf('/') ? name : `${name}:latest`
}

function isHost(first: string): boolean {
  return first.includes('.') || first.includes(':') || first === 'localhost'
}
