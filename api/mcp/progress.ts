import type { ServerContext } from '@modelcontextprotocol/server'

/** Tells the client how far the work is: a number that grows with each call, and a sentence. */
export type Progress = (done: number, message: string, total?: number) => Promise<void>

/** Returns the way to tell a request's progress, if its client wants to know. */
export function progressOf({ mcpReq }: ServerContext): Progress | undefined {
  const progressToken = mcpReq._meta?.progressToken
  if (progressToken === undefined) return undefined
  return (progress, message, total) =>
    mcpReq.notify({
      method: 'notifications/progress',
      params: { progressToken, progress, message, ...(total !== undefined && { total }) },
    })
}
