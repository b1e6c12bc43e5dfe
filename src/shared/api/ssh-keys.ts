import { z } from 'zod'
import { defineEndpoint, NoData } from '../kernel/contract.ts'
import { SshKeyId } from '../kernel/ids.ts'
import { pageQuery } from '../kernel/page.ts'
import { IsoTime } from '../kernel/time.ts'

/** A public key by which its user reaches the files and consoles of servers over SSH. */
export const SshKey = z.object({
  id: SshKeyId,
  name: z.string(),
  /** As it stands at the beginning of the key: `ssh-ed25519`. */
  type: z.string(),
  /** `SHA256:…`, as `ssh-keygen -l` shows it. */
  fingerprint: z.string(),
  /** Type and key, without a comment. */
  publicKey: z.string(),
  /** Who comes in by it changes nothing, whatever the rights of its user. */
  readOnly: z.boolean(),
  lastUsedAt: IsoTime.nullable(),
  createdAt: IsoTime,
})
export type SshKey = z.infer<typeof SshKey>

export const listSshKeys = defineEndpoint({
  id: 'ssh_keys.list',
  tag: 'Auth',
  summary: 'List your SSH keys',
  method: 'GET',
  path: '/api/auth/profile/ssh-keys',
  access: 'session',
  query: pageQuery(),
  paged: true,
  response: z.array(SshKey),
})

export const addSshKey = defineEndpoint({
  id: 'ssh_keys.add',
  tag: 'Auth',
  summary: 'Add a public SSH key to your account',
  method: 'POST',
  path: '/api/auth/profile/ssh-keys',
  access: 'session',
  body: z.object({
    /** By default the comment of the key. */
    name: z.string().trim().min(1).max(100).optional(),
    /** One line as in `id_ed25519.pub`. */
    publicKey: z.string().trim().min(1).max(8192),
    readOnly: z.boolean().default(false),
  }),
  response: SshKey,
  status: 201,
  errors: ['PERMISSION_DENIED', 'SSH_KEY_EXISTS', 'SSH_KEY_LIMIT_REACHED'],
  audit: { action: 'auth.ssh_key_add', resource: 'user' },
})

export const deleteSshKey = defineEndpoint({
  id: 'ssh_keys.delete',
  tag: 'Auth',
  summary: 'Delete an SSH key of yours; sessions that came in by it end',
  method: 'DELETE',
  path: '/api/auth/profile/ssh-keys/:sshKeyId',
  access: 'session',
  params: { sshKeyId: SshKeyId },
  response: NoData,
  errors: ['PERMISSION_DENIED', 'SSH_KEY_NOT_FOUND'],
  audit: { action: 'auth.ssh_key_delete', resource: 'user' },
})
