import { readFileSync } from 'node:fs'
import { ConfigError } from '../config.ts'

/** Reads a file with certificates or a key; on failure throws a `ConfigError` that names the setting. */
export function readPem(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new ConfigError(`${setting}: ${file} cannot be read (${(cause as Error).message}).`, { cause })
  }
}
