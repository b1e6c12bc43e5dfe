// Writes settings as fast as it can and tells each one that was answered, until it is killed: `node writer.js DIST FILE FROM`.
import { pathToFileURL } from 'node:url'

const [dist, file, from] = process.argv.slice(2)
const load = (name) => import(pathToFileURL(`${dist}/src/${name}`).href)
const { openDb } = await load('daemon/db/db.js')
const { systemClock } = await load('shared/kernel/time.js')
const db = await openDb(file, systemClock)
let next = Number(from)
const loop = async () => {
  for (;;) {
    const number = next++
    await db.write(async (tx) => {
      await tx.q
        .insertInto('setting')
        .values({ key: `key ${number}`, value: '1', updatedAt: tx.now })
        .execute()
      await tx.q
        .insertInto('setting')
        .values({ key: `twin ${number}`, value: '1', updatedAt: tx.now })
        .execute()
    })
    process.stdout.write(`${number}\n`)
  }
}
await Promise.all(Array.from({ length: 8 }, loop))
