import { ApiError } from '../../domain/errors.ts'

interface SuffixedParam<T> {
  name: string
  suffix: string
  node: Segment<T>
}

/** One position in a path: what may follow it, and what is served when the path ends here. */
interface Segment<T> {
  literals: Map<string, Segment<T>>
  /** `{slug}:invoke`: tried before the bare parameter, longest suffix first. */
  suffixed: SuffixedParam<T>[]
  param: { name: string; node: Segment<T> } | undefined
  methods: Map<string, T> | undefined
}

type PathParams = Record<string, string>

export interface Match<T> {
  methods: ReadonlyMap<string, T>
  params: PathParams
}

const NO_PARAMS: PathParams = Object.freeze({})

const newSegment = <T>(): Segment<T> => ({
  literals: new Map(),
  suffixed: [],
  param: undefined,
  methods: undefined,
})

/**
 * Finds what a path names by walking its segments: literals before parameters, so order of registration
 * does not matter. Paths without parameters cost one map look-up. Segments are decoded after splitting:
 * `org%2Fname` is one segment.
 */
export class PathRouter<T> {
  readonly #root = newSegment<T>()
  readonly #fixed = new Map<string, Match<T>>()

  add(method: string, path: string, value: T): void {
    let segment = this.#root
    for (const text of path.split('/').slice(1)) segment = childFor(segment, text)

    const methods = (segment.methods ??= new Map())
    if (methods.has(method)) throw new Error(`${method} ${path} is declared twice`)
    methods.set(method, value)
    if (!path.includes('{')) this.#fixed.set(path, { methods, params: NO_PARAMS })
  }

  /** What `path` (without query) names, or `undefined`. */
  find(path: string): Match<T> | undefined {
    const fixed = this.#fixed.get(path)
    if (fixed) return fixed

    const params: PathParams = {}
    const methods = walk(this.#root, path, 1, params)
    return methods && { methods, params }
  }
}

function childFor<T>(segment: Segment<T>, text: string): Segment<T> {
  if (!text.startsWith('{')) {
    const known = segment.literals.get(text)
    if (known) return known
    const fresh = newSegment<T>()
    segment.literals.set(text, fresh)
    return fresh
  }

  const end = text.indexOf('}')
  const name = text.slice(1, end)
  const suffix = text.slice(end + 1)
  if (suffix) return suffixedChild(segment, name, suffix)

  segment.param ??= { name, node: newSegment() }
  if (segment.param.name !== name) throw new Error(`{${name}} and {${segment.param.name}} share a place`)
  return segment.param.node
}

function suffixedChild<T>(segment: Segment<T>, name: string, suffix: string): Segment<T> {
  const known = segment.suffixed.find((other) => other.suffix === suffix)
  if (known) return known.node
  const node = newSegment<T>()
  segment.suffixed.push({ name, suffix, node })
  segment.suffixed.sort((a, b) => b.suffix.length - a.suffix.length)
  return node
}

function walk<T>(
  segment: Segment<T>,
  path: string,
  from: number,
  params: PathParams,
): Map<string, T> | undefined {
  if (from > path.length) return segment.methods

  const slash = path.indexOf('/', from)
  const end = slash === -1 ? path.length : slash
  const text = decode(path.slice(from, end))

  const literal = segment.literals.get(text)
  const found = literal && walk(literal, path, end + 1, params)
  if (found || text === '') return found

  for (const { name, suffix, node } of segment.suffixed) {
    if (text.length <= suffix.length || !text.endsWith(suffix)) continue
    const methods = walk(node, path, end + 1, params)
    if (methods) {
      params[name] = text.slice(0, -suffix.length)
      return methods
    }
  }

  if (!segment.param) return undefined
  const methods = walk(segment.param.node, path, end + 1, params)
  if (methods) params[segment.param.name] = text
  return methods
}

function decode(text: string): string {
  if (!text.includes('%')) return text
  try {
    return decodeURIComponent(text)
  } catch {
    throw new ApiError('bad_request', 'the path is not valid percent-encoded UTF-8')
  }
}
