/** The folder of a server as a quota knows it. */
export interface QuotaFolder {
  readonly path: string
  /** What the file system counts it by: a project id, or the id of a subvolume. */
  readonly id: number
}

/** A folder that is to be counted. */
export interface QuotaClaim {
  readonly path: string
  /** A number that is free on this agent, for file systems that let it choose; kept from an earlier time where there was one. */
  readonly id: number
  /** All in the folder is counted already: it was claimed before. */
  readonly isWhole: boolean
  /** Nothing of the server runs, so that what is in the folder can be taken over. */
  readonly mayTakeOver: boolean
}

/** A file system that can hold a folder to a size. Every method throws a {@link QuotaProblem} for what it cannot do. */
export interface QuotaBackend {
  readonly name: 'project quota' | 'btrfs quota'
  /** Makes a folder that can be claimed later on; without it any folder can. */
  make?(path: string): Promise<void>
  /** Makes the folder where it is missing, and has all in it counted from now on. */
  claim(claim: QuotaClaim): Promise<QuotaFolder>
  /** Sets the limit, in MiB; 0: none. */
  limit(folder: QuotaFolder, limitMb: number): Promise<void>
  /** What is counted now; `null` where the file system does not say it. */
  usedBytes(folder: QuotaFolder): Promise<number | null>
  /** Gives the id back. False when the file system still has the folder's remains: it is tried again later. */
  release(id: number): Promise<boolean>
}

/** Why a folder cannot be held; a sentence part for people. */
export class QuotaProblem extends Error {}
