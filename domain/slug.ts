/** Converts text to lower-case letters, digits and single hyphens; empty when it has no letters or digits. */
export const slugOf = (text: string, longest: number): string =>
  text
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|-+$/g, '')
    .slice(0, longest)
    .replace(/-+$/, '')
