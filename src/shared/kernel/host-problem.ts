/** Something on this machine that has to be put right first; the message says what and how. Exit code 14. */
export class HostProblem extends Error {
  override readonly name: string = 'HostProblem'
}
