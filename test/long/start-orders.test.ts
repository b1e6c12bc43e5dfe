// @module-tag long
import { afterAll, beforeAll } from 'vitest'
import { COUNTING_GAME } from '../e2e/kills.ts'
import { SplitPanel } from '../e2e/split-panel.ts'
import { tryStartOrders } from '../e2e/start-orders.ts'

let panel: SplitPanel
let templateId: string

beforeAll(async () => {
  panel = await SplitPanel.enter()
  templateId = await panel.makeTemplate('moments', COUNTING_GAME)
})

afterAll(async () => {
  await panel.leave()
})

tryStartOrders(() => ({ panel, templateId }), [0, 3, 10, 20, 40, 80, 120, 200, 300, 500])
