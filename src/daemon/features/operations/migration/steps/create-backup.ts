import { FilesInput, serverThere } from './files-input.ts'
import { archiveAtSource } from './source-archive.ts'
import { stepAction } from './step.ts'

/** Has the source make an archive of a server's files, or finds out that they come in another way. */
export const createBackup = stepAction({
  input: FilesInput,
  run: async (context) => {
    const way = await archiveAtSource(context, await serverThere(context))
    return () => Promise.resolve({ kind: 'done', notes: way })
  },
})
