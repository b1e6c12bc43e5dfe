import type { Action } from '../../kit/command.ts'
import { VERSION } from '../../version.ts'

/** `panel version`. */
export const showVersion: Action = async (run) => {
  const local = { cli: VERSION, node: process.versions.node, platform: `${process.platform}-${process.arch}` }
  const versions = run.args.flag('check') ? { ...local, ...(await remote(run)) } : local
  if (run.out.machine) return run.out.value(versions)
  for (const [name, value] of Object.entries(versions)) await run.out.text(`${name.padEnd(9)} ${value}\n`)
}

async function remote(run: Parameters<Action>[0]): Promise<Record<string, string>> {
  const { readOpenApi } = await import('./openapi.ts')
  const { info } = await readOpenApi(run)
  const api = typeof info === 'object' && info !== null && 'version' in info ? String(info.version) : 'unknown'
  return { url: (await run.target()).url, api }
}
