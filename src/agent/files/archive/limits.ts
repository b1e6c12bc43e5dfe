const MIB = 1024 * 1024

/** What one archive may be; bytes and milliseconds. */
export const ARCHIVE_LIMITS = {
  /** Entries that are packed. */
  packedEntries: 1_000_000,
  /** Entries that are unpacked. */
  entries: 200_000,
  /** Folders below each other. */
  depth: 64,
  /** More than this many times its own size is unpacked of no archive, and of no file in a zip. */
  ratio: 1000,
  /** Below so many bytes the ratio does not matter. */
  ratioFromBytes: 10 * MIB,
  /** Links are made at the end, and until then are in memory. */
  links: 20_000,
  /** Unpacking ends after so long. */
  timeMs: 30 * 60_000,
} as const
