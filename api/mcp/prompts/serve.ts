import { ProtocolError, ProtocolErrorCode, type Server } from '@modelcontextprotocol/server'
import { guarded } from '../guarded.ts'
import type { Offer } from '../offer.ts'
import type { AccountRequestContext } from '../tool.ts'

/** Serves `prompts/list` and `prompts/get`. */
export function servePrompts(server: Server, on: AccountRequestContext, { prompts }: Offer): void {
  server.setRequestHandler('prompts/list', () => ({
    prompts: prompts.map(({ get: _get, complete: _complete, ...shown }) => shown),
  }))
  server.setRequestHandler('prompts/get', ({ params: { name, arguments: args = {} } }, mcp) =>
    guarded(on.request.log, () => {
      const prompt = prompts.find((one) => one.name === name)
      if (!prompt) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Unknown prompt: ${name}`)
      const missing = prompt.arguments?.find((one) => one.required && args[one.name] === undefined)
      if (missing) {
        throw new ProtocolError(
          ProtocolErrorCode.InvalidParams,
          `The prompt ${name} needs the argument ${missing.name}`,
        )
      }
      return prompt.get(args, { ...on, mcp })
    }),
  )
}
