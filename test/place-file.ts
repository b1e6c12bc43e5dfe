import { rename, writeFile } from 'node:fs/promises'

/** Puts a file where a running program looks for it, whole in the moment in which it is there. */
export async function placeFile(path: string, text: string): Promise<void> {
  await writeFile(`${path}.new`, text)
  await rename(`${path}.new`, path)
}
