import { symbols } from 'pino'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'

const EVENT = 'request.answered'
const { level: LEVEL } = emit.events[EVENT]

/** A JSON-RPC message's method, and the tool that it calls. */
export interface LoggedCall {
  rpcMethod: string
  tool?: string
}

/** The fields to log for an answered request. */
export interface RequestLogFields {
  requestId: string
  method: string
  path: string
  operation: string | undefined
  accountId: string | undefined
  call: LoggedCall | undefined
  status: number
  /** The code of the error response. */
  code: string | undefined
  ms: number
}

/** A logger's internals under pino's `symbols`: the destination of its lines, and their common fields. */
interface LoggerInternals {
  [symbols.streamSym]: { write(line: string): void }
  [symbols.chindingsSym]: string
}

/**
 * Logs the event of each request. We format the line as pino would, but in a third less time: all fields except the
 * path and the tool are known to need no escaping or redaction.
 */
export function requestLog(log: Logger): (line: RequestLogFields) => void {
  if (!log.isLevelEnabled(LEVEL)) return () => {}
  const { [symbols.streamSym]: stream, [symbols.chindingsSym]: bindings } = log as unknown as LoggerInternals
  const head = `{"level":${log.levels.values[LEVEL]},"time":`
  const name = `${bindings},"event":"${EVENT}"`
  return ({ requestId, method, path, operation, accountId, call, status, code, ms }) => {
    const who = accountId === undefined ? '' : `,"account_id":"${accountId}"`
    const why = code === undefined ? '' : `,"code":"${code}"`
    const what = operation === undefined ? '' : `,"operation":"${operation}"`
    stream.write(
      `${head}${Date.now()}${name},"request_id":"${requestId}","method":"${method}",` +
        `"path":${JSON.stringify(path)}${what}${who}${call ? callFields(call) : ''},"status":${status}${why},"ms":${ms}}\n`,
    )
  }
}

function callFields({ rpcMethod, tool }: LoggedCall): string {
  const called = tool === undefined ? '' : `,"tool":${JSON.stringify(tool)}`
  return `,"rpc_method":${JSON.stringify(rpcMethod)}${called}`
}
