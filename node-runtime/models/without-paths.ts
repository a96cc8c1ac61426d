/** An absolute path with at least two parts that is not part of a URL. */
const PATH = /(?:file:\/\/|(?<![\w.:/~-]))\/(?:[\w.@+~=-]+\/)+([\w.@+~=-]*)/g
/** Routes look like paths, but callers know them. */
const ROUTE = /^\/(?:v1|api)\//

/** Shortens a message for other machines: of each path on this disk only the last part remains. */
export const withoutPaths = (text: string): string =>
  text.replace(PATH, (path, last: string) => (ROUTE.test(path) ? path : last === '' ? '…' : `…/${last}`))
