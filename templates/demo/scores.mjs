import { open, readFile, rename, unlink } from 'node:fs/promises'

const REMEMBERED = 500

/**
 * Reads the score file. A missing file is an empty table; an unreadable one is moved aside under another name, so that
 * neither the game nor the old scores are lost.
 */
export async function loadScores(file, warn) {
  let text
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (error.code === 'ENOENT') return { round: 0, totals: new Map() }
    throw error
  }
  try {
    return parse(text)
  } catch (error) {
    await rename(file, `${file}.broken`)
    warn(`${file} cannot be read (${error.message}); it is kept as ${file}.broken and the scores start anew`)
    return { round: 0, totals: new Map() }
  }
}

/** Writes the score file in one step: after a crash or a full disk the old file is still whole. */
export async function saveScores(file, { round, totals }) {
  const best = [...totals.values()].sort((a, b) => b.points - a.points).slice(0, REMEMBERED)
  const fresh = `${file}.new`
  try {
    const handle = await open(fresh, 'w')
    try {
      await handle.writeFile(`${JSON.stringify({ version: 1, round, scores: best }, null, 2)}\n`)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await rename(fresh, file)
  } catch (error) {
    await unlink(fresh).catch(() => undefined) // the first error tells more than a missing temporary file
    throw error
  }
  return best.length
}

function parse(text) {
  const data = JSON.parse(text)
  const whole = (value) => Number.isSafeInteger(value) && value >= 0
  if (!whole(data?.round) || !Array.isArray(data.scores)) throw new Error('not a score file')
  const totals = new Map()
  for (const entry of data.scores) {
    if (typeof entry?.name !== 'string' || !whole(entry.points)) throw new Error('a score has no name or points')
    totals.set(entry.name.toLowerCase(), { name: entry.name, points: entry.points })
  }
  return { round: data.round, totals }
}
