import type { GamePlayers } from '../../shared/protocol/game-query.ts'
import { overUdp, type QueryTarget } from './exchange.ts'

const MARK = '\xff\xff\xff\xff'
const QUESTION = Buffer.from(`${MARK}getstatus\n`, 'latin1')
const ANSWER = Buffer.from(`${MARK}statusResponse\n`, 'latin1')
const COLOUR = /\^[^^]/g

/** `getstatus` of Quake 3 and its kin: settings in one line, then a line for each player. */
export function askQuake3(target: QueryTarget): Promise<GamePlayers> {
  return overUdp(target, (udp) =>
    udp.ask(QUESTION, (answer) => {
      if (!answer.subarray(0, ANSWER.length).equals(ANSWER)) return undefined
      const [settings = '', ...lines] = answer.toString('utf8', ANSWER.length).split('\n')
      const players = lines.filter((line) => line !== '')
      const names = players.map((line) => line.slice(line.indexOf('"') + 1, line.lastIndexOf('"')))
      const max = settingOf(settings, 'sv_maxclients')
      return {
        online: players.length,
        max: max === undefined ? null : Number(max),
        names: names.map((name) => name.replace(COLOUR, '')),
      }
    }),
  )
}

/** The settings are `\name\value\name\value`. */
function settingOf(settings: string, name: string): string | undefined {
  const parts = settings.split('\\').slice(1)
  const at = parts.findIndex((part, index) => index % 2 === 0 && part === name)
  return at < 0 ? undefined : parts[at + 1]
}
