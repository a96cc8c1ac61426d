import { type Config, SETTINGS } from '../config.ts'
import { type Kind, type KindName, KINDS } from './kinds.ts'

/** A setting as it is in force in this process. */
export interface EffectiveSetting {
  name: string
  kind: string
  meaning: string
  /** As text or JSON; null for a secret, and for what is not set. */
  value: unknown
  default: string | null
  is_secret: boolean
  is_set: boolean
}

const SECRET_TEXT = /(?:_KEY|_KEY_ID|_TOKEN|_SECRET\w*)$/
/** Settings that other processes read. */
const ELSEWHERE = /^(?:Node|Gate): /

/** Returns whether nobody may read the value of a setting. */
const isSecret = (name: string, kindName: KindName): boolean => {
  const kind: Kind = KINDS[kindName]
  return kind.isSecret === true || (kindName === 'text' && SECRET_TEXT.test(name))
}

/** Returns the settings of a gateway as they are in force, without their secrets. */
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

/** A URL is shown without the user and password that it may have. */
function shown(value: unknown): unknown {
  if (typeof value !== 'string') return value instanceof Set ? [...value] : (value ?? null)
  if (!/^\w+:\/\//.test(value)) return value
  return value.replace(/^(\w+:\/\/)[^/?#]*@/, '$1')
}
