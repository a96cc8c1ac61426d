import type { Server } from '@modelcontextprotocol/server'
import { guarded } from './guarded.ts'
import type { Offer } from './offer.ts'
import type { AccountRequestContext } from './tool.ts'

/** The protocol's limit on values per response. */
const MAX_VALUES = 100

/** Serves `completion/complete`: names and ids of the account's objects that start with the text so far. */
export function serveCompletions(
  server: Server,
  on: AccountRequestContext,
  { prompts, resources }: Offer,
): void {
  server.setRequestHandler('completion/complete', ({ params: { ref, argument } }) =>
    guarded(on.request.log, async () => {
      const source =
        ref.type === 'ref/prompt'
          ? prompts.find(({ name }) => name === ref.name)
          : resources.find(({ template }) => template?.uriTemplate === ref.uri)
      const known = (await source?.complete?.(argument.name, on)) ?? []
      const text = argument.value.toLowerCase()
      const values = known.filter((value) => value.toLowerCase().startsWith(text))
      return {
        completion: {
          values: values.slice(0, MAX_VALUES),
          total: values.length,
          hasMore: values.length > MAX_VALUES,
        },
      }
    }),
  )
}
