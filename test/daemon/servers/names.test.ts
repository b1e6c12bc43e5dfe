import { afterAll, beforeAll, expect, test } from 'vitest'
import { transferOwnership } from '../../../src/shared/api/access.ts'
import { updateServer } from '../../../src/shared/api/servers.ts'
import type { Template } from '../../../src/shared/api/templates.ts'
import { refusal } from '../place-panel.ts'
import { type Person, Stage, type StageNode } from './stage.ts'

let stage: Stage
let node: StageNode
let template: Template
let [ada, eve]: Person[] = []

beforeAll(async () => {
  stage = await Stage.open()
  node = await stage.node()
  template = await stage.template()
  ;[ada, eve] = [await stage.person(), await stage.person()]
})
afterAll(() => stage.close())

const create = (name: string, owner = ada) => stage.create(template, node, { name, ownerId: owner?.id })
const rename = (serverId: string, name: string) =>
  stage.admin.call(updateServer, { params: { serverId } as never, body: { name } })
const taken = async (call: Promise<unknown>) => expect((await refusal(call)).code).toBe('SERVER_NAME_TAKEN')

test('a name is given once to the servers of an owner, also when it is renamed', async () => {
  const first = await create('survival')
  await taken(create('survival'))
  expect(await create('survival', eve)).toMatchObject({ name: 'survival' })
  const second = await create('creative')
  await taken(rename(second.id, 'survival'))
  expect(await rename(first.id, 'survival')).toMatchObject({ name: 'survival' })
  await rename(first.id, 'old')
  expect(await rename(second.id, 'survival')).toMatchObject({ name: 'survival' })
})

test('of ten that want a name at the same time one gets it', async () => {
  const tries = await Promise.allSettled(Array.from({ length: 10 }, () => create('race')))
  expect(tries.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
  for (const one of tries)
    if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'SERVER_NAME_TAKEN' })
  const others = [await create('a'), await create('b'), await create('c')]
  const renamed = await Promise.allSettled(others.map(({ id }) => rename(id, 'raced')))
  expect(renamed.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
})

test('servers that share a name already keep it and can be edited', async () => {
  const [mine, hers] = [await create('shared'), await create('shared', eve)]
  const body = { newOwnerId: ada?.id } as never
  await stage.admin.call(transferOwnership, { params: { serverId: hers.id }, body })
  for (const { id } of [mine, hers]) {
    const edited = { name: 'shared', description: 'edited' }
    expect(await stage.admin.call(updateServer, { params: { serverId: id }, body: edited })).toMatchObject(edited)
  }
})
