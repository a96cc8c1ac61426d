import type { Config } from '../../platform/config.ts'
import type { Auth } from './caller.ts'
import { Conformance } from './conformance.ts'
import type { Family } from './family.ts'
import type { AnyRoute } from './route.ts'

export interface MountOptions {
  /** For tests: reject response bodies that don't match their schema, and undeclared error codes. */
  validateResponses?: boolean
}

/** Path parameters that act as credentials. */
const SECRET_PARAM = /\{(?:lease_token|grant)\}/

/** The handler checks join tokens, together with the body. */
const OPEN: ReadonlySet<Auth> = new Set(['none', 'join-token'])

/** A route of a family, with derived properties that several middlewares use. */
export interface Operation {
  readonly route: AnyRoute
  readonly family: Family
  /** The full path, in OpenAPI syntax. */
  readonly path: string
  /** True if callers need no credential, or one that only the handler can check. */
  readonly isOpen: boolean
  /** The path to log if the real path contains a credential. */
  readonly loggedPath: string | undefined
  /** Set in tests only. */
  readonly conformance: Conformance | undefined
}

export function operationOf(
  route: AnyRoute,
  family: Family,
  { validateResponses }: MountOptions = {},
): Operation {
  const path = family.prefix + route.path
  return {
    route,
    family,
    path,
    isOpen: OPEN.has(route.auth),
    loggedPath: SECRET_PARAM.test(path) ? path : undefined,
    conformance: validateResponses ? new Conformance(route) : undefined,
  }
}

/** Returns the routes of all families, without those of disabled features. */
export function operationsOf(
  families: readonly Family[],
  config: Pick<Config, 'HEARTH_FEATURES' | 'HEARTH_MEMORY'>,
  options: MountOptions,
): { served: Operation[]; off: Operation[] } {
  const all = families.flatMap((family) => family.routes.map((route) => operationOf(route, family, options)))
  const isOff = ({ route: { preview, servedWith } }: Operation) =>
    (preview !== undefined && !config.HEARTH_FEATURES.includes(preview)) ||
    (servedWith !== undefined && !config[servedWith])
  return { served: all.filter((operation) => !isOff(operation)), off: all.filter(isOff) }
}
