import { type Config, SETTINGS } from '../config.ts'
import { type Kind, type KindName, KINDS } from './kinds.ts'

/** A setting as this process applies it. */
export interface EffectiveSetting {
  name: string
  kind: string
  meaning: string
  /** Text or JSON; null for a secret, and for a setting without a value. */
  value: unknown
  default: string | null
  is_secret: boolean
  is_set: boolean
}

const SECRET_TEXT = /(?:_KEY|_KEY_ID|_TOKEN|_SECRET\w*)$/
/** Settings that other processes read. */
const ELSEWHERE = /^(?:Node|Gate): /

/** Returns whether a setting's value must never be shown. */
const isSecret = (name: string, kindName: KindName): boolean => {
  const kind: Kind = KINDS[kindName]
  return kind.isSecret === true || (kindName === 'text' && SECRET_TEXT.test(name))
}

/** Returns the settings that this gateway applies, without secrets. */
export function effectiveSettings(config: Config): EffectiveSetting[] {
  return Object.entries(SETTINGS)
    .filter(([, { meaning }]) => !ELSEWHERE.test(meaning))
    .map(([name, { kind, meaning, default: fallback }]) => {
      const value = config[name as keyof Config]
      const is_secret = isSecret(name, kind)
      return {
        name,
        kind,
        meaning,
        value: is_secret ? null : shown(value),
        default: fallback ?? null,
        is_secret,
        is_set: value !== undefined && !isEmpty(value),
      }
    })
}

const isEmpty = (value: unknown): boolean => value === '' || (Array.isArray(value) && value.length === 0)

/** Removes the user name and password from a URL. */
function shown(value: unknown): unknown {
  if (typeof value !== 'string') return value instanceof Set ? [...value] : (value ?? null)
  if (!/^\w+:\/\//.test(value)) return value
  return value.replace(/^(\w+:\/\/)[^/?#]*@/, '$1')
}
