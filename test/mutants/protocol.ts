import type { Mutant } from './mutant.ts'

const DEFINITIONS = 'test/protocol/definitions.test.ts'
const COMPATIBILITY = 'test/protocol/compatibility.test.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    title: 'asks an agent whatever it can do',
    topic: 'protocol',
    file: 'src/daemon/gateway/session.ts',
    find: 'if (!this.can(capability)) {',
    replace: 'if (false) {',
    seenBy: [DEFINITIONS],
  },
  {
    title: 'sends commands that the agent is too old for',
    topic: 'protocol',
    file: 'src/daemon/gateway/command-pump.ts',
    find: 'if (refusal !== undefined) {',
    replace: 'if (refusal === "") {',
    seenBy: [DEFINITIONS],
  },
  {
    title: 'takes an agent that says nothing of capabilities for one that can do nothing',
    topic: 'protocol',
    file: 'src/daemon/gateway/session.ts',
    find: 'this.#hello?.capabilities ?? BASE_CAPABILITIES',
    replace: 'this.#hello?.capabilities ?? []',
    seenBy: [COMPATIBILITY],
  },
  {
    title: 'requires capabilities in a hello',
    topic: 'protocol',
    file: 'src/shared/protocol/frames.ts',
    find: 'capabilities: z.array(AgentText(64)).max(64).optional(),',
    replace: 'capabilities: z.array(AgentText(64)).max(64),',
    seenBy: [COMPATIBILITY],
  },
  {
    title: 'takes less of a request than before',
    topic: 'protocol',
    file: 'src/shared/protocol/console.ts',
    find: 'lines: z.array(z.string().max(4096)).min(1)',
    replace: 'lines: z.array(z.string().max(4096)).min(2)',
    seenBy: [COMPATIBILITY],
  },
  {
    title: 'leaves a command aside that it does not know',
    topic: 'protocol',
    file: 'src/agent/server/commands.ts',
    find: "const refusal = 'op' in read ? this.#refusal(frame, read) : read",
    replace: "if (!('op' in read)) return\n    const refusal = this.#refusal(frame, read)",
    seenBy: [DEFINITIONS],
  },
  {
    title: 'cancels nothing',
    topic: 'protocol',
    file: 'src/agent/server/commands.ts',
    find: 'if (op !== undefined && CANCELLED.has(op)) this.#cancels',
    replace: 'if (op !== undefined && !CANCELLED.has(op)) this.#cancels',
    seenBy: [DEFINITIONS],
  },
  {
    title: 'leaves out the newest report when they come quickly',
    topic: 'protocol',
    file: 'src/agent/link/progress-pace.ts',
    find: 'while (this.#newest !== undefined && !this.#over.signal.aborted) {',
    replace: 'if (this.#newest !== undefined) {',
    seenBy: [DEFINITIONS],
  },
  {
    title: 'passes on what a report has beside what its command declares',
    topic: 'protocol',
    file: 'src/daemon/features/servers/servers/command-progress.ts',
    find: 'progress: { ...parsed.data } }',
    replace: 'progress: { ...(progress as object) } }',
    seenBy: [DEFINITIONS],
  },
]
