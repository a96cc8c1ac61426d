/** An absolute path of at least two parts, but no part of an address. */
const PATH = /(?:file:\/\/|(?<![\w.:/~-]))\/(?:[\w.@+~=-]+\/)+([\w.@+~=-]*)/g
/** Routes, which look like paths and are known to whoever calls them. */
const ROUTE = /^\/(?:v1|api)\//

/** A message as it may leave this node: of paths on its disk only the last part is told. */
export const withoutPaths = (text: string): string =>
  text.replace(PATH, (path, last: string) => (ROUTE.test(path) ? path : last === '' ? '…' : `…/${last}`))
