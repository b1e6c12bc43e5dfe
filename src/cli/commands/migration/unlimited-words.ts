/** What `--unlimited` calls the limits of a server. */
export const UNLIMITED_WORDS: Readonly<Record<string, string>> = {
  memoryMb: 'memory',
  diskMb: 'disk',
  cpuCores: 'cpu',
}
