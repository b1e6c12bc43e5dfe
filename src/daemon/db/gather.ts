import { PanelError } from '../../shared/kernel/errors.ts'
import { BriefTries } from './brief.ts'
import type { Db, Tx } from './db.ts'

/** What has become of one of several that were carried out together. */
export type Settled<O> = { readonly value: O } | { readonly error: unknown }

/** What has to be carried out in a transaction of its own. */
export const ALONE = Symbol('alone')

/** At most so many are carried out together: others get their turn in between. */
const MOST = 64
/** The same of brief ones: while these are on their way to the disk, the next are made ready. */
const MOST_BRIEF = 32

/**
 * Carries out together, in one transaction, what is waiting when that begins: for many small changes of the same kind, whose statements
 * then do the work of all of them. `work` answers for each in the order of `items`; what is refused, or has to go {@link ALONE}, must have written nothing. When `work`
 * fails, nothing of them is stored, and each is tried by itself. Each caller waits for the commit. `isBrief`: see {@link How}. A call inside of {@link Db.withFirst} is carried out alone.
 */
export function gather<I, O>(
  db: Pick<Db, 'write' | 'isScoped'>,
  work: (tx: Tx, items: readonly I[]) => Promise<readonly (Settled<O> | typeof ALONE)[]>,
  { isBrief = false }: { readonly isBrief?: boolean } = {},
): (item: I) => Promise<O> {
  const waiting: { readonly item: I; settle(settled: Settled<O>): void }[] = []
  const brief = isBrief ? new BriefTries() : undefined
  const most = isBrief ? MOST_BRIEF : MOST
  let isAsked = false
  const carryOutAlone = (item: I): Promise<O> =>
    db.write(async (tx) => {
      const [settled] = await work(tx, [item])
      return resultOf(settled === ALONE ? undefined : settled)
    })
  const goAlone = ({ item, settle }: (typeof waiting)[number]): void => {
    carryOutAlone(item).then(
      (value) => settle({ value }),
      (reason: unknown) => settle({ error: reason }),
    )
  }
  const carryOut = async (): Promise<void> => {
    let taken: typeof waiting = []
    try {
      const settled = await db.write(
        async (tx) => {
          if (taken.length === 0) {
            taken = waiting.splice(0, most)
            isAsked = false // what comes from now on needs another transaction
            if (waiting.length > 0) ask()
          }
          return await work(
            tx,
            taken.map(({ item }) => item),
          )
        },
        { isLast: true, brief },
      ) // more may come while others of the commit are carried out
      for (const [place, one] of taken.entries()) {
        const result = settled[place]
        if (result === ALONE) goAlone(one)
        else one.settle(result ?? { error: new Error('not carried out') })
      }
    } catch (error) {
      // Refused before it began, with all that waited for it.
      if (taken.length === 0) {
        isAsked = false
        taken = waiting.splice(0)
      } else if (taken.length > 1 && !(error instanceof PanelError)) {
        // Nothing of them is stored: one that cannot be carried out does not stand in the way of the others.
        for (const one of taken) goAlone(one)
        return
      }
      for (const one of taken) one.settle({ error })
    }
  }
  const ask = (): void => {
    isAsked = true
    void carryOut()
  }
  return (item) => {
    if (db.isScoped()) return carryOutAlone(item)
    return new Promise((resolve, reject) => {
      waiting.push({ item, settle: (settled) => ('error' in settled ? reject(settled.error) : resolve(settled.value)) })
      if (!isAsked) ask()
    })
  }
}

/** The value of what was carried out; throws the refusal of what was not. */
export function resultOf<O>(settled: Settled<O> | undefined): O {
  if (settled === undefined) throw new Error('not carried out')
  if ('error' in settled) throw settled.error
  return settled.value
}
