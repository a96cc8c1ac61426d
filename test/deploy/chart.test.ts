import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { Ajv } from 'ajv'
import { parse } from 'yaml'
import { SETTINGS } from '../../platform/config.ts'
import { REQUIRED } from '../../scripts/chart/rules.ts'
import { CHART, CHART_SCHEMA, chartSchema, templateVariables } from '../../scripts/chart/settings.ts'

type Values = Record<string, unknown>

const read = (file: string): string => readFileSync(join(CHART, file), 'utf8')
const isMap = (value: unknown): value is Values =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** Merges values as Helm does: maps by key, everything else as a whole. */
function merge(base: Values, over: Values): Values {
  const result = { ...base }
  for (const [key, value] of Object.entries(over)) {
    const present = result[key]
    result[key] = isMap(present) && isMap(value) ? merge(present, value) : value
  }
  return result
}

/** Returns the paths of the values that a reader can set; a map whose keys are free is one value. */
function pathsOf(values: Values, prefix = ''): string[] {
  return Object.entries(values).flatMap(([key, value]) => {
    const isFree = !isMap(value) || Object.keys(value).length === 0
    const isWhole = isFree || ['resources', 'annotations', 'podDisruptionBudget', 'selector'].includes(key)
    return isWhole ? [`${prefix}${key}`] : pathsOf(value, `${prefix}${key}.`)
  })
}

/** Returns the text of a template with everything that it includes. */
function withIncludes(text: string): string {
  const helpers = globSync('templates/*.tpl', { cwd: CHART }).map(read).join('\n')
  const bodies = new Map(
    [...helpers.matchAll(/\{\{- define "([\w.]+)" -\}\}(.+?)\n\{\{- end -\}\}/gs)].map(([, name, body]) => [
      name,
      body,
    ]),
  )
  const expand = (part: string): string =>
    part.replaceAll(/include "([\w.]+)"/g, (_, name: string) => expand(bodies.get(name) ?? ''))
  return expand(text)
}

describe('Helm chart', () => {
  const defaults = parse(read('values.yaml')) as Values
  // Helm merges value files over the defaults before it checks the schema.
  const check = new Ajv({ allErrors: true, strict: false }).compile(JSON.parse(read('values.schema.json')))
  const errorsOf = (values: Values): string[] => {
    check(merge(defaults, values))
    return (check.errors ?? []).map(({ instancePath, message }) => `${instancePath} ${message}`)
  }

  for (const file of globSync('ci/*-values.yaml', { cwd: CHART }))
    it(`accepts the values in ${basename(file)}`, () => {
      assert.deepEqual(errorsOf(parse(read(file)) as Values), [])
    })

  for (const [values, path] of [
    [{ gatway: {} }, ''],
    [{ gateway: { replica: 2 } }, '/gateway'],
    [{ config: { HEARTH_RATE_LIMITS: '1' } }, '/config'],
    [{ config: { HEARTH_RATE_LIMIT: 1 } }, '/config/HEARTH_RATE_LIMIT'],
    [{ config: { HEARTH_OPERATIONS_KEY: 'x' } }, '/config'],
    [{ nodePools: { cpu: { gpus: 1 } } }, '/nodePools/cpu'],
    [{ secretValues: { HEARTH_LOG_LEVEL: 'info' } }, '/secretValues'],
  ] as const)
    it(`rejects ${JSON.stringify(values)}`, () => {
      const errors = errorsOf(values)
      assert.ok(
        errors.some((error) => error.startsWith(`${path} `)),
        errors.join('\n') || 'accepted',
      )
    })

  it('accepts exactly the settings that no template sets', () => {
    assert.equal(readFileSync(CHART_SCHEMA, 'utf8'), chartSchema(), 'run: npm run config:write')
  })

  it('names only settings that exist', () => {
    const unknown = [...templateVariables()].filter((name) => !(name in SETTINGS))
    assert.deepEqual(unknown, ['TEMPORAL_BROADCAST_ADDRESS'], 'the last one is for the Temporal server')
  })

  it('sets every setting that a process needs', () => {
    const files = { gateway: 'gateway', worker: 'worker', gate: 'gate', node: 'nodes', setup: 'setup' }
    for (const [component, file] of Object.entries(files)) {
      const text = withIncludes(read(`templates/${file}.yaml`))
      const missing = (REQUIRED[component] ?? ['no such process']).filter((name) => !text.includes(name))
      assert.deepEqual(missing, [], component)
    }
  })

  it('keeps the addresses of the database and of Temporal from nodes', () => {
    assert.doesNotMatch(
      withIncludes(read('templates/nodes.yaml')),
      /DATABASE_URL|TEMPORAL_|S3_|POSTGRES|ENCRYPTION_KEYS|OPERATIONS_KEY/,
    )
  })

  it('has the version of the platform', () => {
    const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string }
    const chart = parse(read('Chart.yaml')) as Values
    assert.deepEqual([chart['version'], chart['appVersion']], [version, version])
  })

  it('lists every value in its README', () => {
    const named = new Set([...read('README.md').matchAll(/`([\w.*]+)`/g)].map(([, name]) => name))
    const missing = pathsOf(defaults).filter(
      (path) => !named.has(path) && !named.has(path.replace(/^[^.]+/, '*')),
    )
    assert.deepEqual(missing, [])
  })
})
