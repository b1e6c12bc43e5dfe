import type { Log } from '../../../core/log.ts'
import type { Vault } from '../../../core/secrets.ts'
import type { Tx } from '../../../db/db.ts'
import { parseJson } from '../../../db/json.ts'
import { isBanned } from '../../accounts/auth/accounts.ts'
import type { Place } from '../webhooks/outbox.ts'
import { shownUrl } from '../webhooks/target-url.ts'
import type { AlertRow } from './alert-rows.ts'
import { actionsOf, type RuleRow, RuleWebhooks, sealedUnder } from './rule-rows.ts'

/** Everybody whom the rule notifies of this alert, each once. */
export async function targetsOf(
  tx: Tx,
  deps: { readonly vault: Vault; readonly log: Log },
  rule: RuleRow,
  alert: Pick<AlertRow, 'serverOwnerId'>,
): Promise<Place[]> {
  const { emails, notifyOwner } = actionsOf(rule)
  const addresses = new Set((emails ?? []).map((address) => address.toLowerCase()))
  const ownerId = alert.serverOwnerId ?? rule.userId
  if (notifyOwner === true && ownerId !== null) {
    const found = tx.q
      .selectFrom('user')
      .select(['email', 'emailVerified', 'banned', 'banExpires'])
      .where('id', '=', ownerId)
    const owner = await found.executeTakeFirst()
    // Anybody can write the address of a stranger into their account; only whoever reads its mail confirms it.
    if (owner?.emailVerified === 1 && !isBanned(owner, tx.now)) addresses.add(owner.email)
  }
  const mails = [...addresses].map((address): Place => ({ channel: 'email', address }))
  return [...mails, ...webhooksOf(deps, rule)]
}

function webhooksOf({ vault, log }: { readonly vault: Vault; readonly log: Log }, rule: RuleRow): Place[] {
  if (rule.sealedWebhooks === null) return []
  const found = opened(vault, rule.id, rule.sealedWebhooks)
  // The alert itself and the mails must not fail for that.
  if (found === undefined) log.warn({ ruleId: rule.id }, 'cannot decrypt webhooks of alert rule with the current key')
  const { urls, secret } = found ?? { urls: [], secret: '' }
  return urls.map((url): Place => ({ channel: 'webhook', url, secret, shownUrl: shownUrl(url) }))
}

/** The URLs and the secret of a rule; `undefined` when the present key does not open them. */
export function opened(vault: Vault, ruleId: string, sealed: string): RuleWebhooks | undefined {
  try {
    return parseJson(RuleWebhooks, vault.open(sealedUnder(ruleId), sealed))
  } catch {
    return undefined // sealed by another key: they have to be set again
  }
}
