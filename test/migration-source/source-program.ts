import { sourceFlags } from './flags.ts'
import { startSource } from './source-simulator.ts'

/**
 * The source in a process of its own: `source-program --servers 200 …` prints one line of JSON with its URL and its keys, and ends
 * when its input does.
 */
void startSource(sourceFlags(process.argv.slice(2).join(' '))).then((source) => {
  process.stdout.write(`${JSON.stringify({ url: source.url, keys: source.keys })}\n`)
  process.stdin.resume().once('end', () => void source.close())
})
