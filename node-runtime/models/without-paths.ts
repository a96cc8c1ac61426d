/** An absolute path with at least two segments that is not part of a URL. */
const PATH = /(?:file:\/\/|(?<![\w.:/~-]))\/(?:[\w.@+~=-]+\/)+([\w.@+~=-]*)/g
/** Routes look like paths, but callers know them. */
const ROUTE = /^\/(?:v1|api)\//

/** Shortens a message for other machines: keeps only the last segment of each path on this disk. */
export const withoutPaths = (text: string): string =>
  text.replace(PATH, (path, last: string) => (ROUTE.test(path) ? path : last === '' ? '…' : `…/${last}`))
