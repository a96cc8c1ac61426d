import { InvalidArgumentError } from 'commander'
import type { Hearth } from '../../client/index.ts'

/** Hyperparameters as they were typed. */
export type Typed = Readonly<Record<string, string>>

/** Adds a hyperparameter `name=value` to the earlier ones. */
export function parameter(text: string, earlier: Typed = {}): Typed {
  const at = text.indexOf('=')
  if (at > 0) return { ...earlier, [text.slice(0, at)]: text.slice(at + 1) }
  throw new InvalidArgumentError('It has to be name=value, such as epochs=50.')
}

/** Returns the values that were meant: JSON where it is some, and text where the config takes nothing but texts. */
export async function valuesOf(
  h: Hearth,
  config: string,
  typed: Typed = {},
): Promise<Record<string, unknown>> {
  if (Object.keys(typed).length === 0) return {}
  const { properties } = (await h.modelConfigs.schema(config)).schema
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
