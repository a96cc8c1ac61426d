import type { AccountRequest } from './tool.ts'

/** Returns the same request without its key's limit to tools. */
export function withoutLimit(request: AccountRequest): AccountRequest {
  const { tools, ...caller } = request.caller
  if (!tools) return request
  const { params, query, headers, body, rawBody, trx, requestId } = request
  const { surface, disconnect, hold, log, afterCommit, req, res } = request
  return {
    caller,
    params,
    query,
    headers,
    body,
    rawBody,
    trx,
    requestId,
    surface,
    disconnect,
    hold,
    log,
    afterCommit,
    req,
    res,
    get signal() {
      return disconnect.signal
    },
  }
}
