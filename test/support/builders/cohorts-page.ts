import { readFileSync } from 'node:fs'

/** Returns the blocks of docs/cohorts.md, or of another page, in one language, by their order, without the indent that they have in a list. */
export const blocksOf = (language: 'json' | 'sh', page = 'docs/cohorts.md'): string[] =>
  [...readFileSync(page, 'utf8').matchAll(new RegExp(`^( *)\`\`\`${language}\\n(.*?)^ *\`\`\``, 'gms'))].map(
    ([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
