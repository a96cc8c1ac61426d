import { resolve } from 'node:path'
import { type Config, readConfig } from '../platform/config.ts'

const CHECKOUT = resolve(import.meta.dirname, '..')

/** Reads the settings. Like `npm start`, resolves a relative data directory against the checkout. */
export const cliConfig = (env: NodeJS.ProcessEnv = process.env): Config =>
  readConfig({ ...env, HEARTH_DATA_DIR: resolve(CHECKOUT, env['HEARTH_DATA_DIR'] || '.hearth') })
