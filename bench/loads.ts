import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { OTHER_CORE } from './gateway-world.ts'

/** A request that is sent many times. */
export interface Load {
  url: string
  method?: 'GET' | 'POST'
  headers: Readonly<Record<string, string>>
  body: string
}

/** The results of `rateload`; the percentiles exclude the warm-up. */
export interface LoadResult {
  p50_ms: number
  p99_ms: number
  /** Includes the warm-up. */
  sent: number
  non2xx: number
  errors: number
}

/**
 * Sends a request over 64 connections, `rate` times per second or as fast as possible. `folder` contains the program.
 */
export async function rateload(
  folder: string,
  { url, method = 'POST', headers, body }: Load,
  { seconds, rate = 0 }: { seconds: number; rate?: number },
): Promise<LoadResult> {
  const given = ['-url', url, '-method', method, '-body', body]
  const how = ['-rate', String(rate), '-c', '64', '-d', `${seconds}s`, '-warm', '300ms']
  const lines = Object.entries(headers).flatMap(([name, value]) => ['-H', `${name}: ${value}`])
  const program = join(folder, 'rateload')
  const { stdout } = await promisify(execFile)('taskset', [
    '-c',
    OTHER_CORE,
    program,
    ...given,
    ...how,
    ...lines,
  ])
  return JSON.parse(stdout) as LoadResult
}
