import type { ServerContext } from '@modelcontextprotocol/server'

/** Reports progress to the client: a number that grows with each call, and a sentence. */
export type Progress = (done: number, message: string, total?: number) => Promise<void>

/** Returns a function that reports a request's progress, if the client requested progress. */
export function progressOf({ mcpReq }: ServerContext): Progress | undefined {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  return (progress, message, total) =>
    mcpReq.notify({
      method: 'notifications/progress',
      params: { progressToken, progress, message, ...(total !== undefined && { total }) },
    })
}
