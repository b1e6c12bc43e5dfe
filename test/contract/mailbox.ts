import { type MailServer, startMailServer } from '../daemon/mail/mail-server.ts'
import type { TestPanel } from '../panel.ts'
import { until } from './world.ts'

/** A mail server that the panel sends by while `work` runs; the settings go on to name it, so that mail fails afterwards. */
export async function withMailServer<T>(panel: TestPanel, work: (mails: Mailbox) => Promise<T>): Promise<T> {
  const server = await startMailServer()
  await sendBy(panel, server.port)
  try {
    return await work(mailbox(server))
  } finally {
    await server.close()
  }
}

/** Names a mail server on the loopback in the settings. */
export async function sendBy(panel: TestPanel, port: number): Promise<void> {
  await panel.configure('smtp.host', '127.0.0.1')
  await panel.configure('smtp.port', port)
  await panel.configure('smtp.from', 'Panel <panel@example.org>')
  await panel.configure('install.mailVouched', ['*'])
}

/** What has arrived at a mail server. */
export interface Mailbox {
  /** The token in the newest mail to the address, of which there must be so many. */
  token(email: string, mails?: number): Promise<string>
}

function mailbox({ received }: MailServer): Mailbox {
  const sentTo = (email: string) => received.filter(({ to }) => to.includes(email))
  return {
    token: async (email, mails = 1) => {
      await until(
        () => sentTo(email).length >= mails,
        () => `mail number ${mails} to ${email}`,
      )
      return /^Token: (\S+)/m.exec(unwrapped(sentTo(email).at(-1)?.text ?? ''))?.[1] ?? ''
    },
  }
}

/** Longer lines of a mail are sent quoted-printable, in pieces that end in `=`. */
function unwrapped(text: string): string {
  return text.replace(/=\r?\n/g, '')
}
