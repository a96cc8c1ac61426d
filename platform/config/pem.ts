import { readFileSync } from 'node:fs'
import { ConfigError } from '../config.ts'

/** The bytes of a file of certificates or of a key; a `ConfigError` naming the setting when it cannot be read. */
export function readPem(setting: string, file: string): Buffer {
  try {
    return readFileSync(file)
  } catch (cause) {
    throw new ConfigError(`${setting}: ${file} cannot be read (${(cause as Error).message}).`, { cause })
  }
}
