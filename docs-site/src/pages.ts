import { posix, resolve } from 'node:path'

/** The repository, which is named where the site is built in a copy of its sources. */
export const ROOT = resolve(process.env['DOCS_ROOT'] ?? '..')

/** The title of a page is its first heading, which the site shows above the text. */
const HEADING = /^# (.+)\n+/m
/** A relative link of Markdown: the path and what follows `#`. */
const LINK = /\]\((?![a-z]+:|#|\/)([^)#\s]+)(#[^)\s]*)?\)/g

/** Pages beside those of `docs/`, by their paths in the repository. */
export const OUTSIDE = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'CODE_OF_CONDUCT.md',
  'node-runtime/servers/README.md',
]
/** The folders of other files that pages may link, by their paths in the repository. */
export const FILES = ['docs/openapi', 'docs/pictures', 'docs/examples']

/** The pages in their order, by id; the decisions follow. */
export const SIDEBAR = {
  Start: ['index', 'quickstart', 'browser-quickstart', 'concepts', 'console', 'cli', 'client', 'agents'],
  Use: [
    'models',
    'training-data',
    'cohorts',
    'cohorts-evaluator',
    'tools',
    'manifest',
    'memory',
    'webhooks',
    'status-codes',
  ],
  Operate: [
    'deployment',
    'configuration',
    'upgrading',
    'security',
    'report-a-vulnerability',
    'events',
    'performance',
  ],
  Understand: ['architecture', 'contract', 'limits', 'gaps'],
  Contribute: ['contributing', 'code_of_conduct', 'changelog', 'node-runtime/servers'],
}

/**
 * Returns the id of a page, which is its address on the site. A `README.md` is the page of its folder; the root's
 * `SECURITY.md` gets a name of its own, because ids are in lower case and `docs/security.md` exists.
 */
export const idOf = (path: string): string =>
  path
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .replace(/(^|\/)README$/, '')
    .replace(/^SECURITY$/, 'report-a-vulnerability')
    .toLowerCase() || 'index'

/** Returns the address on the site of a file in the repository; undefined where it has none. */
function addressOf(path: string): string | undefined {
  const id = idOf(path)
  if (OUTSIDE.includes(path) || (path.startsWith('docs/') && path.endsWith('.md')))
    return id === 'index' ? '/' : `/${id}/`
  return FILES.some((folder) => path.startsWith(`${folder}/`)) ? path.replace(/^docs/, '') : undefined
}

/** Makes a page of a file of Markdown: its title, and the text with links as the site has them. */
export function pageOf(text: string, path: string): { title: string; body: string } {
  const [, title] = HEADING.exec(text) ?? []
  if (title === undefined) throw new Error(`${path} has no heading for its title`)
  const body = text.replace(HEADING, '').replaceAll(LINK, (_whole, to: string, fragment = '') => {
    const target = posix.join(posix.dirname(path), to)
    const address = addressOf(target)
    if (address === undefined) throw new Error(`${path} links ${target}, which the site does not have`)
    return `](${address}${fragment})`
  })
  return { title: title.replaceAll('`', ''), body }
}
