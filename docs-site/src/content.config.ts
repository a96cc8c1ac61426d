import { glob, readFile } from 'node:fs/promises'
import { join, relative, sep } from 'node:path'
import { docsSchema } from '@astrojs/starlight/schema'
import type { Loader } from 'astro/loaders'
import { defineCollection } from 'astro:content'
import { idOf, OUTSIDE, pageOf, ROOT } from './pages.ts'

/** Loads the pages from the repository's own Markdown files, which have no front matter. */
const pages: Loader = {
  name: 'pages',
  async load({ config, store, parseData, renderMarkdown, watcher, logger }) {
    const read = async (path: string) => {
      const { title, body } = pageOf(await readFile(join(ROOT, path), 'utf8'), path, config.base)
      const id = idOf(path)
      const data = await parseData({ id, data: { title } })
      store.set({ id, data, body, rendered: await renderMarkdown(body) })
    }
    store.clear()
    const paths = [...OUTSIDE]
    for await (const path of glob('docs/**/*.md', { cwd: ROOT })) paths.push(path.split(sep).join('/'))
    for (const path of paths) await read(path)

    watcher?.add(paths.map((path) => join(ROOT, path)))
    watcher?.on('change', (file) => {
      const path = relative(ROOT, file).split(sep).join('/')
      if (paths.includes(path)) read(path).catch((err: Error) => logger.error(err.message))
    })
  },
}

export const collections = { docs: defineCollection({ loader: pages, schema: docsSchema() }) }
