import { oneLine } from '../kit/output/escape.ts'

/** The last word of an attached console: where one was, and how to come back to it. */
export function detachMessage(name: string, cursor: string | undefined): string {
  if (cursor === undefined) return `detached from ${oneLine(name)}`
  const word = /^\w[\w.-]*$/.test(name) ? name : `'${oneLine(name).replaceAll("'", "'\\''")}'`
  return `detached from ${oneLine(name)} at ${cursor} (resume: panel console attach ${word} --after-cursor ${cursor})`
}
