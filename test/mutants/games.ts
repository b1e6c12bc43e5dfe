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
]
