/** Returns true for a file or folder name that cannot escape its folder or refer to a hidden file. */
export const isFileName = (name: string): boolean => /^[\w-][\w.-]*$/.test(name)

/** Returns true if the client accepts a file that was compressed at build time. */
export const acceptsGzip = (headers: { 'accept-encoding'?: string }): boolean =>
  /\bgzip\b/.test(headers['accept-encoding'] ?? '')
