import { InvalidArgumentError } from 'commander'
import type { Hearth } from '../../client/index.ts'
import { didYouMean } from '../../domain/nearest-name.ts'
import { usageError } from '../cli-error.ts'

/** Hyperparameters as typed on the command line. */
export type TypedParameters = Readonly<Record<string, string>>

/** Parses `name=value` and adds it to the earlier hyperparameters. */
export function parameter(text: string, earlier: TypedParameters = {}): TypedParameters {
  const at = text.indexOf('=')
  if (at > 0) return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) }
  throw new InvalidArgumentError('Expected name=value, such as epochs=50.')
}

/** Converts typed values: parses JSON where possible, and keeps the text where the config accepts only strings. */
export async function valuesOf(
  h: Hearth,
  config: string,
  typed: TypedParameters = {},
): Promise<Record<string, unknown>> {
  if (Object.keys(typed).length === 0) return {}
  const { schema, aliases = {} } = await h.modelConfigs.schema(config)
  const { properties } = schema
  const names = [...Object.keys(properties), ...Object.keys(aliases)]
  const wrong = Object.keys(typed).find((name) => !names.includes(name))
  // A run ignores unknown hyperparameters, so a typo would waste a run on the default values.
  if (wrong !== undefined) {
    const hint = didYouMean(wrong, names) || `it has ${names.join(', ')}.`
    throw usageError(`--param ${wrong}: ${config} has no such hyperparameter; ${hint}`)
  }
  return Object.fromEntries(
    Object.entries(typed).map(([name, text]) => [
      name,
      properties[name]?.type === 'string' ? text : jsonOrText(text),
    ]),
  )
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
