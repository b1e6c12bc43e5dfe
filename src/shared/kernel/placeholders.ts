/** Variables by how templates of other panels call them. */
const NAMES: Readonly<Record<string, string>> = {
  'server.build.default.port': 'SERVER_PORT',
  'server.allocations.default.port': 'SERVER_PORT',
  'server.build.default.ip': 'SERVER_IP',
  'server.allocations.default.ip': 'SERVER_IP',
  'server.build.memory': 'SERVER_MEMORY',
  'server.build.memory_limit': 'SERVER_MEMORY',
  'server.uuid': 'P_SERVER_UUID',
}
const PREFIX = /^(?:server\.build\.env|server\.environment|env)\./
const PLACEHOLDER = /\{\{([^{}]{1,200})\}\}/g

/** Variables that every server has, whatever its template says. */
export const GIVEN_VARIABLES: ReadonlySet<string> = new Set([
  'SERVER_IP',
  'SERVER_PORT',
  'SERVER_MEMORY',
  'P_SERVER_UUID',
  'PANEL_SERVER_ID',
  'PANEL_NODE',
  'HOME',
  'USER',
  'TZ',
])

/** The variable that a placeholder names: `SERVER_PORT` for `server.build.default.port`, `X` for `env.X`. */
export function placeholderVariable(name: string): string {
  return NAMES[name] ?? name.replace(PREFIX, '')
}

/** The names of the placeholders in a text. */
export function placeholdersIn(text: string): string[] {
  return [...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name.trim())
}

/**
 * A text with its placeholders filled in. `known` has variables by their names, and what is no variable by the whole name, such as
 * `config.docker.interface`; anything else becomes nothing. What is filled in is not looked at again.
 */
export function fillPlaceholders(text: string, known: Readonly<Record<string, string>>): string {
  return text.replace(PLACEHOLDER, (_, content: string) => {
    const name = content.trim()
    const key = Object.hasOwn(known, name) ? name : placeholderVariable(name)
    return Object.hasOwn(known, key) ? (known[key] ?? '') : ''
  })
}
