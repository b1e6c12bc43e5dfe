import { grants, type Permission } from '../../../shared/kernel/permissions.ts'
import { oneLine } from '../../kit/output/escape.ts'
import { dialogRoom } from '../layout.ts'
import { wrapWords } from '../log/cut.ts'
import { EMPTY_EDITOR } from './editor.ts'
import type { Facts, PendingEula } from './facts.ts'
import { type ConsoleState, notify, READ_ONLY, type Surroundings } from './model.ts'

/** What is shown of a text at most, whatever a daemon sends. */
const MOST_TEXT = 16_384

/**
 * The state when a game asks for its agreement. The dialog opens by itself only where nothing else is being done: what is typed for the
 * game must not go into it.
 */
export function askedForEula(state: ConsoleState, text: string): ConsoleState {
  const asked = withEula(state, { text: text.slice(0, MOST_TEXT), declined: false })
  return state.mode.kind === 'none' && state.editor.text === '' ? { ...asked, mode: OPENED } : asked
}

/** The state with what is known of the agreement; a dialog about one that is no longer asked for closes. */
export function withEula(state: ConsoleState, eula: PendingEula | undefined): ConsoleState {
  const known = { ...state, facts: { ...state.facts, eula } }
  return eula === undefined && state.mode.kind === 'eula' ? { ...known, mode: { kind: 'none' } } : known
}

/** What a server says of its agreement and of what this person may do, as facts. */
export function eulaFacts(server: {
  readonly eula: { readonly state: 'pending' | 'declined'; readonly text: string } | null
  readonly effectivePermissions: readonly string[]
}): Pick<Facts, 'eula' | 'mayStart'> {
  const { eula, effectivePermissions } = server
  const held: ReadonlySet<string> = new Set(effectivePermissions)
  const start: Permission = 'server.start'
  return {
    eula: eula === null ? undefined : { text: eula.text.slice(0, MOST_TEXT), declined: eula.state === 'declined' },
    mayStart: grants(held, start),
  }
}

const OPENED = { kind: 'eula', editor: EMPTY_EDITOR, top: 0 } as const

/** Opens the dialog by a key. */
export function openEula(state: ConsoleState, around: Surroundings): ConsoleState {
  if (state.facts.eula === undefined) return notify(state, 'the game asks for no agreement', around.nowMs)
  return { ...state, mode: OPENED }
}

/** Why this person cannot answer; `undefined`: they can. */
export function eulaRefusal({ readOnly, facts }: ConsoleState): string | undefined {
  if (readOnly) return READ_ONLY
  return facts.mayStart ? undefined : 'you may not answer it: that needs the permission server.start'
}

/** The rows that the text of an agreement takes on a screen of so many columns. */
export function eulaRows(text: string, columns: number): string[] {
  return text.split('\n').flatMap((line) => wrapWords(oneLine(line), dialogRoom(columns)))
}
