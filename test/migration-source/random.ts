import { createHash } from 'node:crypto'

/** Numbers that follow from a seed. */
export interface Random {
  below(bound: number): number
  pick<T>(list: readonly T[]): T
  uuid(): string
  /** Letters and digits. */
  text(length: number): string
}

const LETTERS = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789'

export function randomFrom(seed: string): Random {
  let count = 0
  const bytes = (): Buffer => createHash('sha256').update(`${seed}\0${count++}`).digest()
  const below = (bound: number): number => bytes().readUInt32BE(0) % bound
  return {
    below,
    pick: (list) => {
      const one = list[below(list.length)]
      if (one === undefined) throw new Error('nothing to pick from')
      return one
    },
    uuid: () => {
      const hex = bytes().toString('hex')
      return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
    },
    text: (length) => Array.from({ length }, () => LETTERS[below(LETTERS.length)]).join(''),
  }
}
