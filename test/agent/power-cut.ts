import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { encodeLine, readJournal } from '../../src/agent/state/journal-file.ts'
import { isAlive } from './agent-stage.ts'

/** Kills the processes whose words are as wanted. */
export async function killThose(wanted: (words: readonly string[]) => boolean): Promise<void> {
  for (const name of await readdir('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const argv = await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '') // it has ended in between
    if (wanted(argv.split('\0'))) process.kill(Number(name), 'SIGKILL')
  }
}

/** Ends games and holders and removes their traces, as a power cut of the machine does with what lived in its memory. */
export async function cutPower(
  dataDir: string,
  servers: readonly { readonly id: string; readonly pid: number | null }[],
  record: 'kept' | 'gone' = 'gone',
): Promise<void> {
  const states = servers.map(({ id }) => join(dataDir, 'state', id))
  await killThose((words) => words.some((word) => states.some((state) => word === state || word.includes(`${state}/`))))
  for (const { pid } of servers) {
    if (pid !== null && (await isAlive(pid))) process.kill(pid, 'SIGKILL')
    while (pid !== null && (await isAlive(pid))) await new Promise((resolve) => setTimeout(resolve, 10))
  }
  for (const state of states) {
    for (const name of ['exit.json', 'io', 'holder.lock']) {
      await rm(join(state, name), { recursive: true, force: true })
    }
    const file = join(state, 'holder.json')
    if (record === 'gone') await rm(file, { force: true })
    else await writeFile(file, (await readFile(file, 'utf8')).replace(/"bootId":"[^"]*"/, '"bootId":"an-earlier-boot"'))
  }
}

/** What an agent that is down has written was written in an earlier boot of the machine. */
export async function anEarlierBoot(dataDir: string): Promise<void> {
  const path = join(dataDir, 'journal', 'journal.jsonl')
  const { records } = await readJournal(path)
  const bootId = 'an-earlier-boot'
  const earlier = records.map((record) => {
    if (record.k !== 'facts') return record
    const { facts } = record
    const launch = facts.launch === null ? null : { ...facts.launch, bootId }
    return { ...record, facts: { ...facts, bootId, launch } }
  })
  await writeFile(path, earlier.map(encodeLine).join(''))
}
