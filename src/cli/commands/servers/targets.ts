import { usage } from '../../kit/failure.ts'
import { readText } from '../../kit/read-file.ts'
import { type Named, resolveAll } from '../../kit/resource/resolve.ts'
import type { Run } from '../../kit/run.ts'
import { readAll } from '../../kit/terminal.ts'

/** The servers that the words and `--from` name; blank lines and `#` comments of the file are skipped. */
export async function targetsOf(run: Run): Promise<readonly Named[]> {
  const from = run.args.text('from')
  const text = from === undefined ? '' : from === '-' ? await readAll(run.terminal.stdin) : await readText(from)
  const lines = text.split('\n').map((line) => line.trim())
  const words = [...run.args.words('server'), ...lines.filter((line) => line !== '' && !line.startsWith('#'))]
  if (words.length === 0 && from !== undefined) throw usage(`${from === '-' ? 'stdin' : from} names no server`)
  return resolveAll(run, 'server', words)
}
