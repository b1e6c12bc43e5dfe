import { constants } from 'node:fs'
import { open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileProblem } from '../../../../shared/kernel/file-problem.ts'
import { CliFailure } from '../../../kit/failure.ts'
import { SOURCE_LIMITS, type SourceFile, SourceFiles, tooMuch } from './source-file.ts'

/** Folders that hold no eggs of their own. */
const PASSED_OVER = new Set(['.git', 'node_modules'])

/** The files of a folder that may be eggs. Links are not followed. */
export async function readFolder(root: string): Promise<readonly SourceFile[]> {
  const files = new SourceFiles()
  try {
    await walk(root, '', { files, depth: 0 })
  } catch (error) {
    if (error instanceof CliFailure) throw error
    throw new CliFailure('FILE_UNREADABLE', `${root} cannot be read: ${fileProblem(root, error)}`, { cause: error })
  }
  return files.found
}

async function walk(root: string, below: string, at: { files: SourceFiles; depth: number }): Promise<void> {
  if (at.depth > SOURCE_LIMITS.depth) throw tooMuch(`folders in folders, more than ${SOURCE_LIMITS.depth} deep`)
  const entries = await readdir(join(root, below), { withFileTypes: true })
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    at.files.entry()
    const path = below === '' ? entry.name : `${below}/${entry.name}`
    if (entry.isDirectory() && !PASSED_OVER.has(entry.name)) await walk(root, path, { ...at, depth: at.depth + 1 })
    else if (entry.isFile()) await readOne(root, path, at.files)
  }
}

/** `O_NOFOLLOW`: what was a file a moment ago may be a link by now. */
async function readOne(root: string, path: string, files: SourceFiles): Promise<void> {
  const handle = await open(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    const { size } = await handle.stat()
    if (!files.takes(path, size)) return
    const content = Buffer.alloc(size)
    const { bytesRead } = await handle.read(content, 0, size, 0)
    files.add(path, content.subarray(0, bytesRead))
  } finally {
    await handle.close()
  }
}
