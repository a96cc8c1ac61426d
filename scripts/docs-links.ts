import { existsSync, globSync, readFileSync } from 'node:fs'
import { join, posix, sep } from 'node:path'

const HREF = /<(?:a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]*)"/g
const ID = /\sid="([^"]*)"/g
const OTHER_SITE = /^(?:[a-z]+:|\/\/)/
/** Matches elements that load external resources when a page is opened. */
const LOADED = /<(?:script|img|link)\b[^>]*?\s(?:href|src)="(?:https?:)?\/\/[^"]*"/g

/**
 * Returns the problems in a site that was built for the path `base`: links to missing pages, anchors or files, links
 * that leave `base`, and external resources.
 */
export function faultsOfSite(folder: string, base = '/'): string[] {
  const pages = new Map(
    globSync('**/*.html', { cwd: folder }).map((path) => {
      const html = readFileSync(join(folder, path), 'utf8')
      return [posix.join('/', base, path.split(sep).join('/')), html] as const
    }),
  )
  const ids = new Map([...pages].map(([path, html]) => [path, new Set(groupsOf(html, ID))]))
  const isFile = (path: string): boolean => !path.startsWith('..') && existsSync(join(folder, path))
  return [...pages].flatMap(([path, html]) => {
    const loaded = [...html.matchAll(LOADED)].map(([element]) => `${path} loads ${element}`)
    const dead = groupsOf(html, HREF)
      .filter((href) => !OTHER_SITE.test(href))
      .filter((href) => {
        const [to = '', fragment = ''] = href.split('#').map(decodeURIComponent)
        const target = to === '' ? path : posix.resolve(posix.dirname(path), to)
        const page = to.endsWith('/') ? posix.join(target, 'index.html') : target
        const known = ids.get(page)
        if (known === undefined) return !isFile(posix.relative(base, page))
        return fragment !== '' && !known.has(fragment)
      })
      .map((href) => `${path} links ${href}`)
    return [...new Set([...loaded, ...dead])]
  })
}

const groupsOf = (text: string, pattern: RegExp): string[] =>
  [...text.matchAll(pattern)].map(([, group = '']) => group)
