import { tree } from '../whole-tree.ts'
import type { Command, Noun } from './command.ts'
import { helpFor } from './help.ts'

/**
 * The help of every command and noun under its whole name, such as `servers list`; that of the program under the empty one.
 * The bundled program has the texts in the place of what makes them (`scripts/build.mjs`).
 */
export const pages: ReadonlyMap<string, string> = new Map([['', helpFor(tree, [])], ...pagesBelow(tree, [])])

function pagesBelow(nodes: readonly (Command | Noun)[], above: readonly string[]): [string, string][] {
  return nodes.flatMap((node): [string, string][] => {
    const path = [...above, node.name]
    const below = node.kind === 'noun' ? pagesBelow(node.children, path) : []
    return [[path.join(' '), helpFor(tree, path)], ...below]
  })
}
