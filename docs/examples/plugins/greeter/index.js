/** Greets by its configuration, and counts what happens to servers. */
export async function activate(panel) {
  const { greeting, loud, signature } = panel.config
  panel.log.info('greeter is ready', { loud })

  const changes = async () => (await panel.storage.get('changes')) ?? {}

  return {
    handlers: {
      greet: ({ params, caller }) => {
        if (params.who === 'nobody') throw panel.refusal('NOT_FOUND', 'There is nobody to greet')
        const text = `${greeting}, ${params.who}`
        return { text: loud ? text.toUpperCase() : text, signed: signature !== undefined, askedBy: caller.userId }
      },
      changes: async () => ({ changes: await changes(), servers: await panel.storage.get('servers') }),
      forget: () => panel.storage.delete('changes'),
      onServer: async (event) => {
        const counts = await changes()
        counts[event.type] = (counts[event.type] ?? 0) + (event.type === 'events_lost' ? event.data.lost : 1)
        await panel.storage.set('changes', counts)
      },
      countServers: async () => {
        const { pagination } = await panel.api('GET', '/api/servers', { query: { limit: 1 } })
        await panel.storage.set('servers', pagination.total)
        return pagination.total
      },
    },
    deactivate: () => panel.log.info('greeter ends'),
  }
}
