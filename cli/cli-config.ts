import { resolve } from 'node:path'
import { type Config, readConfig } from '../platform/config.ts'

const CHECKOUT = resolve(import.meta.dirname, '..')

/** Reads the settings. A relative data directory is one of the checkout, as it is for `npm start`. */
export const cliConfig = (env: NodeJS.ProcessEnv = process.env): Config =>
  readConfig({ ...env, HEARTH_DATA_DIR: resolve(CHECKOUT, env['HEARTH_DATA_DIR'] || '.hearth') })
