import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../module-graph.ts'

/** An egg as it stands in its file. */
export interface EggFile {
  readonly name: string
  readonly text: string
}

const OWN = join(ROOT, 'test/fixtures/eggs')
/** Real eggs of other people, which the repository does not hold. */
const OTHERS = join(ROOT, '../shared/data/eggs')

export const HAS_OTHERS = existsSync(OTHERS)

/** One egg of our own of each version. */
export const OWN_EGGS = filesIn(OWN)

/** Those, and the real ones where they lie beside the repository. */
export const ALL_EGGS = [...OWN_EGGS, ...(HAS_OTHERS ? filesIn(OTHERS) : [])]

/** The text of one of our own. */
export function ownEgg(name: string): string {
  return readFileSync(join(OWN, name), 'utf8')
}

function filesIn(folder: string): EggFile[] {
  const names = readdirSync(folder).filter((name) => /\.(?:json|ya?ml)$/.test(name))
  return names.sort().map((name) => ({ name, text: readFileSync(join(folder, name), 'utf8') }))
}
