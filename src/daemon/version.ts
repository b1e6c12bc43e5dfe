import { readFileSync } from 'node:fs'

/** The version in package.json, whether this runs from the sources or compiled. */
export function readVersion(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')) as Record<string, string> // a package file
      if (name === 'panel' && version !== undefined) return version
    } catch {
      // the other place is tried next
    }
  }
  throw new Error('package.json of panel is not where it belongs')
}
