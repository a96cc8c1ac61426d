import { readFileSync } from 'node:fs'

/** Returns the code blocks of a page (default: docs/cohorts.md) in one language, in order, without list indentation. */
export const blocksOf = (language: 'json' | 'sh', page = 'docs/cohorts.md'): string[] =>
  [...readFileSync(page, 'utf8').matchAll(new RegExp(`^( *)\`\`\`${language}\\n(.*?)^ *\`\`\``, 'gms'))].map(
    ([, indent = '', text = '']) => text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
