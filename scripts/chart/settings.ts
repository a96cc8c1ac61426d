import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { SETTINGS } from '../../platform/config.ts'

/** The folder of the Helm chart. */
export const CHART = join(import.meta.dirname, '..', '..', 'deploy', 'helm', 'hearth')
export const CHART_SCHEMA = join(CHART, 'values.schema.json')

/** Settings of the embedded platform, the command line and the local object store, which the chart never uses. */
const UNUSED = new Set<string>([
  'HEARTH_DATA_DIR',
  'HEARTH_PROFILE',
  'HEARTH_API_KEY',
  'HEARTH_ACCOUNT_ID',
  'HEARTH_USER_ID',
  'HEARTH_OBJECT_DIR',
  'HEARTH_OBJECT_RESERVE_MB',
])

/** Returns the environment variables that the chart's templates name. */
export function templateVariables(): Set<string> {
  const text = globSync('templates/**/*.{tpl,yaml}', { cwd: CHART }).map((file) =>
    readFileSync(join(CHART, file), 'utf8'),
  )
  return new Set(text.join('\n').match(/\b(?:HEARTH|TEMPORAL|S3)_[A-Z\d_]+\b|\bDATABASE_URL\b/g))
}

/** Returns the chart's schema with the settings that `config` accepts: those that no template sets. */
export function chartSchema(): string {
  const managed = templateVariables()
  const names = Object.keys(SETTINGS).filter((name) => !managed.has(name) && !UNUSED.has(name))
  // Helm 4 reports a wrong path for names that `propertyNames` rejects.
  const properties = names.map((name) => `"${name}": { "$ref": "#/$defs/text" }`)
  const lines = properties.join(', ').replaceAll(/((?:[^}]+\}){2},) /g, '$1\n        ')
  return readFileSync(CHART_SCHEMA, 'utf8').replace(
    /("config": \{\n.+?"properties": \{\n).+?(\n {6}\})/s,
    (_, before: string, after: string) => `${before}        ${lines}${after}`,
  )
}
