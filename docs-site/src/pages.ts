import { posix, resolve } from 'node:path'

/** The root of the repository; set through `DOCS_ROOT` when the site is built in a copy of its sources. */
export const ROOT = resolve(process.env['DOCS_ROOT'] ?? '..')

/** Matches the first heading of a page, which is its title; the site shows it above the text. */
const HEADING = /^# (.+)\n+/m
/** Matches a relative Markdown link: the path and the `#` fragment. */
const LINK = /\]\((?![a-z]+:|#|\/)([^)#\s]+)(#[^)\s]*)?\)/g

/** Pages outside `docs/`, by their repository paths. */
export const OUTSIDE = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  'SECURITY.md',
  'CODE_OF_CONDUCT.md',
  'node-runtime/servers/README.md',
]
/** Folders with other files that pages may link to, by their repository paths. */
export const FILES = ['docs/openapi', 'docs/pictures', 'docs/examples']

/** The pages in sidebar order, by id; the decisions follow. */
export const SIDEBAR = {
  Start: ['index', 'quickstart', 'browser-quickstart', 'concepts', 'console', 'cli', 'faq'],
  Use: [
    'client',
    'python',
    'agents',
    'ide-recipes',
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
    'operations/kubernetes',
    'sizing',
    'reverse-proxy',
    'gpu-nodes',
    'teams-and-budgets',
    'configuration',
    'troubleshooting',
    'upgrading',
    'operations/backup',
    'security',
    'report-a-vulnerability',
    'monitoring',
    'events',
    'performance',
  ],
  Understand: ['architecture', 'contract', 'limits', 'gaps'],
  Contribute: ['contributing', 'code_of_conduct', 'changelog', 'node-runtime/servers'],
}

/**
 * Returns the id of a page, which is its path on the site. A `README.md` is the page of its folder. The root's
 * `SECURITY.md` gets a different name, because ids are lower case and `docs/security.md` exists.
 */
export const idOf = (path: string): string =>
  path
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .replace(/(^|\/)README$/, '')
    .replace(/^SECURITY$/, 'report-a-vulnerability')
    .toLowerCase() || 'index'

/** Returns the site path of a repository file; undefined if the site doesn't contain it. */
function addressOf(path: string): string | undefined {
  const id = idOf(path)
  if (OUTSIDE.includes(path) || (path.startsWith('docs/') && path.endsWith('.md')))
    return id === 'index' ? '/' : `/${id}/`
  return FILES.some((folder) => path.startsWith(`${folder}/`)) ? path.replace(/^docs/, '') : undefined
}

/** Converts a Markdown file to a page: its title, and its text with links rewritten for a site at the path `base`. */
export function pageOf(text: string, path: string, base = '/'): { title: string; body: string } {
  const [, title] = HEADING.exec(text) ?? []
  if (title === undefined) throw new Error(`${path} has no heading to use as its title`)
  const body = text.replace(HEADING, '').replaceAll(LINK, (_whole, to: string, fragment = '') => {
    const target = posix.join(posix.dirname(path), to)
    const address = addressOf(target)
    if (address === undefined) throw new Error(`${path} links to ${target}, which the site does not contain`)
    return `](${posix.join(base, address)}${fragment})`
  })
  return { title: title.replaceAll('`', ''), body }
}
