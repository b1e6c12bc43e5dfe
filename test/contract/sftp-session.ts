import { generateKeyPairSync } from 'node:crypto'
import { addSshKey } from '../../src/shared/api/ssh-keys.ts'
import type { Client } from '../../src/shared/client.ts'
import { newId } from '../../src/shared/kernel/ids.ts'
import { systemClock } from '../../src/shared/kernel/time.ts'
import type { TestPanel } from '../panel.ts'

/** The line of a fresh public key. */
export function publicKeyLine(): string {
  const { x = '' } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  const parts = [Buffer.from('ssh-ed25519'), Buffer.from(x, 'base64url')]
  const blob = Buffer.concat(parts.flatMap((part) => [Buffer.from([0, 0, 0, part.length]), part]))
  return `ssh-ed25519 ${blob.toString('base64')} made for a test`
}

/** A fresh key of the client's account. */
export async function addKey(client: Client): Promise<string> {
  return (await client.call(addSshKey, { body: { publicKey: publicKeyLine() } })).id
}

/** A session as an agent has opened it; that of a panel in these tests need not take connections. */
export async function openSession(
  panel: Pick<TestPanel, 'app'>,
  at: { readonly userId: string; readonly serverId: string; readonly nodeId: string },
): Promise<string> {
  const id = newId('sfs', systemClock)
  await panel.app.core.db.write(async (tx) => {
    const row = { ...at, method: 'token', credential: 'sft_gone', isReadOnly: 0, ipAddress: '192.0.2.7' } as const
    await tx.q
      .insertInto('sftpSession')
      .values({ id, ...row, client: 'SSH-2.0-test', createdAt: tx.now, endedBecause: null })
      .execute()
  })
  return id
}
