import type { Server } from '@modelcontextprotocol/server'
import { guarded } from './guarded.ts'
import type { Offer } from './offer.ts'
import type { RequestOfAccount } from './tool.ts'

/** The most values that the protocol lets an answer have. */
const MAX_VALUES = 100

/** Answers `completion/complete`: what the account has that begins like the text so far. */
export function serveCompletions(server: Server, on: RequestOfAccount, { prompts, resources }: Offer): void {
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
