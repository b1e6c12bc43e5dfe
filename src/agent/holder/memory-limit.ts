/**
 * The MiB at which a server is ended, for the memory that it was given. Programs that get that number (`-Xmx`) use
 * somewhat more for themselves: 15 % are added up to 2 GiB, 10 % up to 4 GiB, and 5 % above. 0 or less is no limit.
 */
export function enforcedMemoryMb(memoryMb: number): number {
  if (memoryMb <= 0) return memoryMb
  const share = memoryMb <= 2048 ? 1.15 : memoryMb <= 4096 ? 1.1 : 1.05
  return Math.floor(memoryMb * share)
}
