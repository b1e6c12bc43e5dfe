import type { SimSchedule, SimTask } from './rows.ts'

const NIGHTLY = { minute: '0', hour: '4', dayOfMonth: '*', month: '*', dayOfWeek: '*' }

/** What the source accepts for a time; some of it no other cron does, and the last is no time at all. */
const ODD_CRONS = [
  { minute: '*/7', hour: '0-6/2', dayOfMonth: '1', month: '1,4,7,10', dayOfWeek: '*' },
  { minute: '1-59/2', hour: '*', dayOfMonth: '*', month: '*', dayOfWeek: 'MON-FRI' },
  { minute: '30', hour: '3', dayOfMonth: 'L', month: 'JAN,JUL', dayOfWeek: '?' },
  { minute: '0', hour: '5', dayOfMonth: '15W', month: '*', dayOfWeek: '*' },
  { minute: '0', hour: '22', dayOfMonth: '*', month: '*', dayOfWeek: '5#2' },
  { minute: '05', hour: '00', dayOfMonth: '*', month: '*', dayOfWeek: '7' },
  { minute: '*/5/2', hour: '25', dayOfMonth: '*', month: '*', dayOfWeek: '*' },
]

/** The schedules of a server: one with three tasks, and for the first servers one at odd times. */
export function schedulesOf(serverId: number, oddities: boolean): SimSchedule[] {
  const rowId = (offset: number): number => serverId * 100 + offset
  const task = (offset: number, more: Pick<SimTask, 'action' | 'payload'> & Partial<SimTask>): SimTask => ({
    id: rowId(offset),
    sequence: offset,
    offset: 0,
    continueOnFailure: false,
    ...more,
  })
  const nightly: SimSchedule = {
    id: rowId(1),
    name: 'nightly',
    cron: NIGHTLY,
    isActive: true,
    onlyWhenOnline: false,
    tasks: [
      task(1, { action: 'command', payload: 'say restart in a minute' }),
      task(2, { action: 'backup', payload: 'cache\n*.log', offset: 5, continueOnFailure: true }),
      task(3, { action: 'power', payload: 'restart', offset: 60 }),
    ],
  }
  const cron = oddities ? ODD_CRONS[serverId - 1] : undefined
  if (cron === undefined) return [nightly]
  const odd: SimSchedule = {
    id: rowId(2),
    name: 'odd times',
    cron,
    isActive: serverId !== 2,
    onlyWhenOnline: true,
    // The third has nothing to do; of the others the first task was deleted long ago.
    tasks: serverId === 3 ? [] : [task(4, { action: 'command', payload: 'say "odd" & on', sequence: 2 })],
  }
  return [nightly, odd]
}
