import { ResourceNotFoundError, type Server } from '@modelcontextprotocol/server'
import { ApiError } from '../../../domain/errors.ts'
import { guarded } from '../guarded.ts'
import type { Offer } from '../offer.ts'
import type { AccountRequestContext } from '../tool.ts'

/** Serves `resources/list`, `resources/templates/list` and `resources/read`. */
export function serveResources(server: Server, on: AccountRequestContext, { resources }: Offer): void {
  const { log } = on.request
  server.setRequestHandler('resources/list', () =>
    guarded(log, async () => {
      const recent = await Promise.all(resources.map((kind) => kind.recent(on)))
      return { resources: recent.flat() }
    }),
  )
  server.setRequestHandler('resources/templates/list', () => ({
    resourceTemplates: resources.flatMap(({ template }) => template ?? []),
  }))
  server.setRequestHandler('resources/read', ({ params: { uri } }) =>
    guarded(log, async () => {
      for (const kind of resources) {
        const contents = await known(uri, () => kind.read(uri, on))
        if (contents) return { contents }
      }
      throw new ResourceNotFoundError(uri)
    }),
  )
}

/** Converts `not_found` to the protocol's own error for unknown resources. */
async function known<T>(uri: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (err) {
    const isUnknown =
      err instanceof ApiError && (err.code === 'not_found' || err.code === 'validation_failed')
    throw isUnknown ? new ResourceNotFoundError(uri) : err
  }
}
