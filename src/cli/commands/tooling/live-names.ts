import { createHash } from 'node:crypto'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Reference } from '../../kit/command.ts'
import { readContexts } from '../../kit/profile/contexts.ts'
import type { Run } from '../../kit/run.ts'

const BUDGET_MS = 500
const CACHE_MS = 30_000

/** Names for completion: from a cache of 30 s, else from the panel within 500 ms, else none. Never fails. */
export async function liveNames(
  run: Run,
  ref: Reference,
  typed: string,
): Promise<readonly (readonly [string, string])[]> {
  try {
    if (ref === 'context')
      return (await readContexts(run.env.configDir)).contexts.map(({ name, url }) => [name, url] as const)
    return await named(run, ref, typed)
  } catch {
    return [] // a completion that fails offers nothing; the command itself will say what is wrong
  }
}

async function named(
  run: Run,
  ref: Exclude<Reference, 'context'>,
  typed: string,
): Promise<readonly (readonly [string, string])[]> {
  const { url, token } = await run.target()
  if (token === undefined) return []
  const folder = join(run.env.cacheDir, 'completion')
  // What one account sees is not offered to the next.
  const asked = createHash('sha256')
    .update(JSON.stringify([url, token, ref, typed]))
    .digest('hex')
  const file = join(folder, `${ref}-${asked.slice(0, 32)}.json`)
  const cached = await readCache(run, file)
  if (cached !== undefined) return cached
  const names = await Promise.race([fetchNames(run, ref, typed), run.clock.sleep(BUDGET_MS).then(() => undefined)])
  if (names === undefined) return []
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await dropOld(run, folder)
  await writeFile(file, JSON.stringify(names), { mode: 0o600 })
  return names
}

/** Each beginning that somebody types leaves a file; those that are read no more go. */
async function dropOld(run: Run, folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const file = join(folder, name)
    const age = run.clock.nowMs() - (await stat(file)).mtimeMs
    if (age > CACHE_MS) await rm(file, { force: true })
  }
}

async function fetchNames(
  run: Run,
  ref: Exclude<Reference, 'context'>,
  typed: string,
): Promise<readonly (readonly [string, string])[]> {
  const { candidates } = await import('../../kit/resource/resolve.ts')
  const rows = await candidates(await run.client(), ref, typed)
  return rows.map(({ name, id }) => [name, id] as const)
}

async function readCache(run: Run, file: string): Promise<readonly (readonly [string, string])[] | undefined> {
  const found = await stat(file).catch(() => undefined) // no cache yet
  if (found === undefined || run.clock.nowMs() - found.mtimeMs > CACHE_MS) return undefined
  const rows: unknown = JSON.parse(await readFile(file, 'utf8'))
  return Array.isArray(rows)
    ? rows.map((row: unknown) => (Array.isArray(row) ? ([String(row[0]), String(row[1])] as const) : ['', '']))
    : undefined
}
