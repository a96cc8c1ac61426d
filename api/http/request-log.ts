import { symbols } from 'pino'
import type { Logger } from '../../platform/log.ts'
import { emit } from '../events.ts'

const EVENT = 'request.answered'
const { level: LEVEL } = emit.events[EVENT]

/** What is told of a request once it has been answered. */
export interface RequestLine {
  requestId: string
  method: string
  path: string
  operation: string | undefined
  accountId: string | undefined
  status: number
  ms: number
}

/** Of a logger, as pino's `symbols` give it: where its lines go, and what each of them holds. */
interface Insides {
  [symbols.streamSym]: { write(line: string): void }
  [symbols.chindingsSym]: string
}

/**
 * Logs the event of each request. It puts the line together by itself, as pino would: all fields but the path are known to
 * need no escapes and no censoring, which takes a third of the time (measured).
 */
export function requestLog(log: Logger): (line: RequestLine) => void {
  if (!log.isLevelEnabled(LEVEL)) return () => {}
  const { [symbols.streamSym]: stream, [symbols.chindingsSym]: bindings } = log as unknown as Insides
  const head = `{"level":${log.levels.values[LEVEL]},"time":`
  const name = `${bindings},"event":"${EVENT}"`
  return ({ requestId, method, path, operation, accountId, status, ms }) => {
    const who = accountId === undefined ? '' : `,"account_id":"${accountId}"`
    const what = operation === undefined ? '' : `,"operation":"${operation}"`
    stream.write(
      `${head}${Date.now()}${name},"request_id":"${requestId}","method":"${method}",` +
        `"path":${JSON.stringify(path)}${what}${who},"status":${status},"ms":${ms}}\n`,
    )
  }
}
