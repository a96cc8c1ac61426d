import { readFileSync } from 'node:fs'

const PAGE = readFileSync('docs/cohorts.md', 'utf8')

/** Returns the blocks of docs/cohorts.md in one language, by their order, without the indent that they have in a list. */
export const blocksOf = (language: 'json' | 'sh'): string[] =>
  [...PAGE.matchAll(new RegExp(`^( *)\`\`\`${language}\\n(.*?)^ *\`\`\``, 'gms'))].map(
    ([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
