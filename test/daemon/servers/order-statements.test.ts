import { afterAll, beforeAll, expect, test } from 'vitest'
import { Connection } from '../../../src/daemon/db/sqlite/connection.ts'
import { verifyAuditLogs } from '../../../src/shared/api/audit-log.ts'
import { startServer, stopServer } from '../../../src/shared/api/power.ts'
import type { Server } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { isCommit, recordStatements, statementsIn } from '../../faulty-driver.ts'
import { type AgentPeer, report } from '../agent-peer.ts'
import { FACTS, Stage, type StageNode, until } from './stage.ts'

let stage: Stage
let node: StageNode
let peer: AgentPeer
let template: Template

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  peer = await stage.peer(node)
  template = await stage.template()
})
afterAll(() => stage.close())

const stopped = (count: number): Promise<Server[]> =>
  Promise.all(Array.from({ length: count }, () => stage.serverIn(template, node, FACTS.stopped)))

/**
 * The statements from here to the commit in which `work` has ended; the least of so many tries, as loops of the daemon write too. What an order sets
 * off at its node is over before the next try.
 */
async function statementsOf(count: number, work: () => Promise<{ commandId: string }[]>): Promise<string[]> {
  const tries: string[][] = []
  for (let i = 0; i < count; i++) {
    const recorded = recordStatements()
    let given: { commandId: string }[]
    try {
      given = await work()
      const { texts } = recorded
      tries.push(texts.slice(0, texts.findLastIndex(isCommit) + 1))
    } finally {
      recorded.remove()
    }
    const isSent = ({ commandId }: { commandId: string }) => peer.of('command').some(({ id }) => id === commandId)
    await peer.until('the orders', () => given.every(isSent))
  }
  return tries.sort((a, b) => a.length - b.length)[0] ?? []
}

const start = ({ id }: Server) => stage.admin.call(startServer, { params: { serverId: id }, body: {} })

/** The agent reports the state of a server; answers the number of its event. */
const say = (previous: 'offline' | 'starting' | 'running', said: ReturnType<typeof report>): number =>
  peer.event({ type: 'server.state', report: said, previous, commandId: null })

test('accepts an order by one that reads and one that writes, which stands for six statements at most, the audit row among them', async () => {
  const tries = 12
  const servers = await stopped(tries)
  const run = await statementsOf(tries, async () => [await start(servers.pop() as Server)]) // one for each
  expect(run).toEqual([expect.stringMatching(/^select/), expect.stringMatching(/^insert into script_/)])
  const own = run.flatMap(statementsIn).filter((sql) => !/^(BEGIN|COMMIT)/.test(sql))
  for (const table of ['audit_log', 'event', '"command"', '"server"']) {
    expect(own.filter((sql) => /insert|update/.test(sql) && sql.includes(table)).length).toBe(1)
  }
  expect(own.length).toBeGreaterThan(0)
  expect(own.length).toBeLessThanOrEqual(6)
})

test('accepts many orders that come together with the statements of a few, all included', async () => {
  const many = 30
  const servers = await stopped(3 * many)
  const statements = await statementsOf(3, () => Promise.all(servers.splice(0, many).map(start)))
  expect(statements.flatMap(statementsIn).length).toBeGreaterThanOrEqual(5)
  expect(statements.length).toBeLessThan(many) // others of the daemon among them
  expect(await stage.admin.call(verifyAuditLogs, { query: {} })).toMatchObject({ intact: true, problem: null })
})

/**
 * Which of the tables that grow SQLite reads from end to end for these statements, and which lists of values it reads again for each row of
 * a table.
 */
async function readWhole(statements: readonly string[]): Promise<string[]> {
  const database = await Connection.open(stage.db.file, 'read')
  try {
    const steps: string[] = []
    for (const statement of new Set(
      statements.flatMap(statementsIn).filter((text) => /^(select|insert|update|delete)\b/i.test(text.trim())),
    )) {
      const plan = await database.all(`explain query plan ${statement}`)
      for (const [place, { parent, detail }] of plan.entries()) {
        const isInner = plan.slice(0, place).some((one) => one['parent'] === parent && /^S/.test(String(one['detail'])))
        const isWhole = /^SCAN (command|server|event|job)\b/.test(String(detail))
        if (isWhole || (isInner && statement.includes('json_each') && /^SCAN .* VIRTUAL TABLE/.test(String(detail))))
          steps.push(`${detail}: ${statement}`)
      }
    }
    return steps
  } finally {
    await database.close()
  }
}

test('reads nothing from end to end for an order, its way to the node and its end, whatever there has been', async () => {
  const server = await stage.serverIn(template, node, FACTS.stopped)
  const recorded = recordStatements()
  try {
    const { commandId, generation } = await start(server)
    const command = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
    peer.finish(command)
    const seq = say('offline', report(server.id, { generation, pid: 79 }))
    await peer.until('its acknowledgement', () => peer.of('event.ack').find((ack) => ack.seq >= seq))
    await (await stage.peer(await stage.node())).leave()
    for (const table of ['"command"', '"server"', 'audit_log', 'event']) {
      expect(recorded.texts.some((text) => text.includes(table))).toBe(true)
    }
    expect(recorded.texts.some((text) => /^select .*"command" where "node_id"/.test(text))).toBe(true)
  } finally {
    recorded.remove()
  }
  expect(await readWhole(recorded.texts)).toEqual([])
})

const commandRow = (id: string) =>
  stage.db.read.selectFrom('command').selectAll().where('id', '=', id).executeTakeFirstOrThrow()

test('stores the acceptance of an order with its end by one statement where they come together, and by itself where it comes before', async () => {
  const [together, before] = (await stopped(2)) as [Server, Server]
  const { commandId } = await start(together)
  const command = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
  const recorded = recordStatements()
  try {
    const seq = peer.finish(command)
    await peer.until('its acknowledgement', () => peer.of('event.ack').find((ack) => ack.seq >= seq))
    expect(recorded.texts.flatMap(statementsIn).filter((text) => /^\s*update "command"/.test(text)).length).toBe(1)
  } finally {
    recorded.remove()
  }
  const row = await commandRow(commandId)
  expect(row).toMatchObject({ state: 'done', acceptedAt: row.endedAt })
  expect(row.endedAt).not.toBeNull()

  const slow = await start(before)
  const other = await peer.until('the order', () => peer.of('command').find(({ id }) => id === slow.commandId))
  peer.send({ type: 'command.accepted', id: other.id })
  await until('its acceptance', async () => (await commandRow(other.id)).state === 'accepted')
  const { acceptedAt } = await commandRow(other.id)
  peer.finish(other)
  await until('its end', async () => (await commandRow(other.id)).state === 'done')
  expect((await commandRow(other.id)).acceptedAt).toBe(acceptedAt)
})

test('accepts one of two orders to one server that come together, and refuses the one that it makes impossible', async () => {
  const servers = await stopped(10)
  const order = ({ id }: Server): Promise<number | string> =>
    stage.admin.call(startServer, { params: { serverId: id }, body: {} }).then(
      ({ generation }) => generation,
      ({ code }: { code: string }) => code,
    )
  const orders = servers.flatMap((server) => [order(server), order(server)])
  const answers = await Promise.all(orders)
  // Which of the two comes first is up to their connections.
  const pairs = servers.map((_, place) => answers.slice(2 * place, 2 * place + 2))
  expect(pairs.map((pair) => pair.filter((answer) => answer === 'SERVER_INVALID_STATE').length)).toEqual(
    servers.map(() => 1),
  )
  expect(await stage.admin.call(verifyAuditLogs, { query: {} })).toMatchObject({ intact: true, problem: null })
})

test('accepts orders beside one that cannot be carried out, of a server whose template is damaged', async () => {
  const damaged = await stage.serverIn(await stage.template(), node, FACTS.stopped)
  const good = await stopped(5)
  await stage.db.write(({ q }) =>
    q.updateTable('template').set({ definition: '{' }).where('id', '=', damaged.templateId).execute(),
  )
  const codes = await Promise.all(
    [...good.slice(0, 2), damaged, ...good.slice(2)].map((server) =>
      start(server).then(
        () => 'accepted',
        ({ code }: { code: string }) => code,
      ),
    ),
  )
  expect(codes).toEqual(['accepted', 'accepted', 'INTERNAL_ERROR', 'accepted', 'accepted', 'accepted'])
})

test('writes nothing of a server for a report that says what is known, and shows what it has said', async () => {
  const server = await stage.serverIn(template, node, FACTS.stopped)
  const { commandId, generation } = await start(server)
  const command = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
  peer.finish(command)
  const runs = report(server.id, { generation, pid: 77 })
  say('offline', runs)
  expect(await stage.status(server.id, 'running')).toMatchObject({ pid: 77 })
  const recorded = recordStatements()
  try {
    const same = say('running', { ...runs, uptimeMs: 5000 })
    await peer.until('its acknowledgement', () => peer.of('event.ack').find(({ seq }) => seq >= same))
    expect(recorded.texts.flatMap(statementsIn).filter((sql) => /^(update "server"|insert)/.test(sql.trim()))).toEqual(
      [],
    )
    const other = say('running', { ...runs, pid: 78 })
    await peer.until('its acknowledgement', () => peer.of('event.ack').find(({ seq }) => seq >= other))
    expect(recorded.texts.flatMap(statementsIn).some((sql) => sql.startsWith('update "server"'))).toBe(true)
  } finally {
    recorded.remove()
  }
  await until('the other process', async () => ((await stage.get(server.id)).pid === 78 ? true : undefined))
})

test('follows a game that has ended before its start was reported as done', async () => {
  const server = await stage.serverIn(template, node, FACTS.stopped)
  const { commandId, generation } = await start(server)
  const command = await peer.until('the order', () => peer.of('command').find(({ id }) => id === commandId))
  say('starting', report(server.id, { generation, power: 'offline', pid: null, uptimeMs: null }))
  peer.finish(command)
  await until('what is wanted to follow', async () =>
    (await stage.get(server.id)).desired === 'stopped' ? true : undefined,
  )
  const { status } = await stage.get(server.id)
  expect(status).toBe('stopped')
  const refused = stage.admin.call(stopServer, { params: { serverId: server.id }, body: {} })
  await expect(refused).rejects.toMatchObject({ code: 'SERVER_INVALID_STATE' })
})
