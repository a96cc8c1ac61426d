import { readFileSync } from 'node:fs'
import { ConfigError } from '../config.ts'

/** Reads a file of certificates or of a key; throws a `ConfigError` with the setting when it cannot. */
export function readPem(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new ConfigError(`${setting}: ${file} cannot be read (${(cause as Error).message}).`, { cause })
  }
}
