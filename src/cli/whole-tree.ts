import type { Tree } from './kit/command.ts'
import { wholeTree } from './tree.ts'

/** All commands, in the order of the help. Data only: loading this loads no action. */
export const tree: Tree = await wholeTree()
