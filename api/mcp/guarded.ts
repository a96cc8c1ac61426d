import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import type { Logger } from '../../platform/log.ts'
import { toApiError } from '../http/errors.ts'
import { logCause } from '../http/log-cause.ts'

/**
 * Runs a method's handler and lets only public messages into its error: otherwise the MCP server would send the client
 * the message of any error that is thrown.
 */
export async function guarded<T>(log: Logger, handle: () => T | Promise<T>): Promise<T> {
  try {
    return await handle()
  } catch (err) {
    if (err instanceof ProtocolError) throw err
    const error = toApiError(err)
    logCause(log, error)
    const { message, status, code, details } = error
    const isCallers = status < 500
    throw new ProtocolError(
      isCallers ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError,
      message,
      { code, details },
    )
  }
}
