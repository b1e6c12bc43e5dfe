import type { Mutant } from './mutant.ts'

const LIFE = 'test/agent/life.test.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    title: 'a program in the background keeps the pid of its ended first process',
    topic: 'background',
    file: 'src/agent/holder/holder.ts',
    find: '    this.control?.sayToAll({ pid })\n',
    replace: '',
    seenBy: [LIFE],
  },
  {
    title: 'an agent that comes back shows the ended first process',
    topic: 'background',
    file: 'src/agent/holder/holder.ts',
    find: 'const pid = this.successor ?? record.pid',
    replace: 'const { pid } = record',
    seenBy: [LIFE],
  },
  {
    title: 'a server in the background does not count as running on',
    topic: 'background',
    file: 'src/agent/running-servers.ts',
    find: ' || livingPids(scopeOf(record)).length > 0',
    replace: '',
    seenBy: [LIFE],
  },
  {
    title: 'each batch of lines waits for the end of the idle thread by itself',
    topic: 'ready rules',
    file: 'src/agent/ready-matcher.ts',
    find: '    if (this.#watchesIdle) return\n',
    replace: '',
    seenBy: [LIFE],
  },
  {
    title: 'each batch of lines leaves a listener on the thread',
    topic: 'ready rules',
    file: 'src/agent/ready-matcher.ts',
    find: ".off('exit', exited)",
    replace: '',
    seenBy: [LIFE],
  },
]
