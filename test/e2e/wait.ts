import { readFile } from 'node:fs/promises'
import { betweenLooks } from '../looks.ts'

/** Asks again and again until there is an answer that is neither `undefined` nor `false`; tells what was last seen when it gives up. */
export async function until<T>(what: string, ask: () => Promise<T | undefined | false>, withinMs = 40_000): Promise<T> {
  const start = performance.now()
  let last: unknown
  for (;;) {
    try {
      const answer = await ask()
      if (answer !== undefined && answer !== false) return answer
      last = answer
    } catch (error) {
      last = error // it may be a daemon that is not back yet; told at the deadline
    }
    if (performance.now() > start + withinMs)
      throw new Error(`not within ${withinMs} ms: ${what} (last: ${String(last)})`)
    await betweenLooks(start)
  }
}

/** For the pauses that are part of what is tried, such as the time between an order and a kill. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Whether the process is there and no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    const text = await readFile(`/proc/${pid}/stat`, 'utf8')
    return !['Z', 'X'].includes(text.charAt(text.lastIndexOf(')') + 2))
  } catch {
    return false // no such process: that is the answer
  }
}

/** Resolves when the process is gone. */
export async function gone(pid: number): Promise<void> {
  await until(`process ${pid} is gone`, async () => !(await isAlive(pid)))
}

/** The real user id of a process. */
export async function userOf(pid: number): Promise<number> {
  return Number(/^Uid:\s+(\d+)/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1])
}
