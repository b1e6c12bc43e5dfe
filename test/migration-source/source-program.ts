import { sourceFlags } from './flags.ts'
import { startSource } from './source-simulator.ts'

/**
 * The source in a process of its own: `source-program --servers 200 …` prints one line of JSON with its URL and its keys, and ends
 * when its input does.
 */
const source = await startSource(sourceFlags(process.argv.slice(2).join(' ')))
process.stdout.write(`${JSON.stringify({ url: source.url, keys: source.keys })}\n`)
process.stdin.resume().once('end', () => void source.close())
