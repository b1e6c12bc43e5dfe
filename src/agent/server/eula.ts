import { agentLines } from '../../shared/kernel/agent-text.ts'
import type { EulaRule } from '../../shared/protocol/server-spec.ts'
import { AgentFailure } from '../failure.ts'
import { makeFoldersOf } from '../files/place.ts'
import { openFile, readRange, writeFile } from '../files/server-file.ts'
import { errorText } from '../logger.ts'
import type { ServerFacts } from '../state/journal-record.ts'
import type { GameServer } from './server.ts'

/** A file of an agreement is a few lines; of a larger one only the beginning is looked at. */
const MOST_BYTES = 64 * 1024
const MOST_SHOWN = 8192

/** A start that waits for an agreement: no fault of the server, and not to be tried again by itself. */
export class EulaMissing extends AgentFailure {}

/** What people do next, by the name of the server. */
function askText(server: GameServer, { file }: EulaRule): string {
  return `The game asks for an agreement (${file}); read it and accept it: panel servers eula accept ${server.spec.name}`
}

/** Whether the server cannot start before somebody has accepted the agreement of its game. */
export async function isEulaPending(server: GameServer): Promise<boolean> {
  return (await unaccepted(server)) !== undefined
}

/** Refuses a start without the agreement, and asks for it. */
export async function refuseWithoutEula(server: GameServer): Promise<void> {
  const facts = await askForEula(server)
  if (facts?.reason == null) return await forgetEula(server)
  await server.record(facts)
  throw new EulaMissing('CONFLICT_STATE', facts.reason)
}

/** What is to be written down because the agreement is missing; `undefined` where it is not. */
export async function askForEula(server: GameServer): Promise<Pick<ServerFacts, 'eula' | 'reason'> | undefined> {
  const found = await unaccepted(server)
  if (found === undefined) return undefined
  const { rule, text } = found
  const asked = (server.facts.eula?.asked ?? 0) + 1
  return { eula: { state: 'pending', file: rule.file, text, asked }, reason: askText(server, rule) }
}

/** Somebody answers. Accepted, the line is written into the file, by a temporary one that takes its place. */
export async function answerEula(server: GameServer, accepted: boolean): Promise<void> {
  const { eula } = server.facts
  const { eula: rule } = server.spec
  if (rule === undefined || eula == null || (!accepted && eula.state === 'declined')) {
    throw new AgentFailure('CONFLICT_STATE', 'The game asks for no agreement now')
  }
  if (!accepted) {
    const reason = `The agreement (${rule.file}) was declined; the server does not start before it is accepted`
    await server.change({ facts: { eula: { ...eula, state: 'declined' }, reason } })
    await server.note('The agreement of the game was declined')
    return
  }
  await writeAgreement(server, rule)
  await server.change({ facts: { eula: null, reason: null } })
  await server.note('The agreement of the game was accepted; the server can be started')
}

async function forgetEula(server: GameServer): Promise<void> {
  if (server.facts.eula != null) await server.record({ eula: null })
}

async function unaccepted({
  spec,
  place,
  context,
  id,
}: GameServer): Promise<{ rule: EulaRule; text: string } | undefined> {
  const rule = spec.eula
  if (rule === undefined) return undefined
  try {
    const text = await textOf(place.files, rule.file)
    if (text === undefined || isAgreed(text)) return undefined
    const shown = [rule.text ?? '', text, rule.url ?? ''].filter((part) => part !== '').join('\n\n')
    return { rule, text: agentLines(shown, MOST_SHOWN) }
  } catch (error) {
    // What cannot be read says nothing about an agreement: the game itself will say what it misses.
    context.log.warn({ serverId: id, err: errorText(error) }, 'cannot read file of agreement')
    return undefined
  }
}

/** `undefined`: there is no such file. */
async function textOf(root: string, path: string): Promise<string | undefined> {
  const file = await openFile(root, path).catch((error: unknown) => {
    if (error instanceof AgentFailure && error.code === 'NOT_FOUND') return undefined
    throw error
  })
  if (file === undefined) return undefined
  try {
    const pieces: Uint8Array[] = []
    const length = Math.min(file.facts.size, MOST_BYTES)
    for await (const piece of readRange(file, { offset: 0, length })) pieces.push(Uint8Array.from(piece))
    return Buffer.concat(pieces).toString('utf8')
  } finally {
    await file.handle.close()
  }
}

async function writeAgreement({ place, context }: GameServer, { file: path }: EulaRule): Promise<void> {
  const before = await textOf(place.files, path)
  if (before !== undefined && Buffer.byteLength(before) >= MOST_BYTES) {
    throw new AgentFailure('CONFLICT_STATE', `${path} is too large for an agreement; edit it by hand`)
  }
  const content = Buffer.from(agreed(before ?? ''))
  await makeFoldersOf(place.files, path)
  const upload = { path, offset: 0, size: content.length, sha256: null, ifMatch: null, ifNone: false }
  const room = { roomBytes: content.length, writing: new Set<string>(), nowMs: context.clock.nowMs() }
  await writeFile(place.files, { ...upload, ...room }, whole(content))
}

/** The text with the line, in place of the one that says otherwise. */
function agreed(text: string): string {
  const lines = text.split('\n')
  if (lines.some((line) => answerIn(line) !== undefined)) {
    return lines.map((line) => (answerIn(line) === undefined ? line : 'eula=true')).join('\n')
  }
  return `${text === '' || text.endsWith('\n') ? text : `${text}\n`}eula=true\n`
}

/** The last line counts, as games read such files. */
function isAgreed(text: string): boolean {
  const answers = text.split('\n').flatMap((line) => answerIn(line) ?? [])
  return answers.at(-1) === 'true'
}

/** What a line answers; `undefined` for any other line. */
function answerIn(line: string): string | undefined {
  const at = line.indexOf('=')
  if (at === -1 || line.slice(0, at).trim().toLowerCase() !== 'eula') return undefined
  return line
    .slice(at + 1)
    .trim()
    .toLowerCase()
}

async function* whole(content: Uint8Array): AsyncGenerator<Uint8Array> {
  yield content
}
