import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { OTHER_CORE } from './gateway-world.ts'

/** One request, sent many times. */
export interface Load {
  url: string
  method?: 'GET' | 'POST'
  headers: Readonly<Record<string, string>>
  body: string
}

/** The results of `rateload`; percentiles are those of requests after its warm-up. */
export interface Loaded {
  p50_ms: number
  p99_ms: number
  /** With those of the warm-up. */
  sent: number
  non2xx: number
  errors: number
}

/** Sends a request from 64 connections, `rate` times a second or as often as it is answered. `folder` has the program. */
export async function rateload(
  folder: string,
  { url, method = 'POST', headers, body }: Load,
  { seconds, rate = 0 }: { seconds: number; rate?: number },
): Promise<Loaded> {
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
  return JSON.parse(stdout) as Loaded
}
