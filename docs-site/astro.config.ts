import { globSync } from 'node:fs'
import starlight from '@astrojs/starlight'
import { defineConfig } from 'astro/config'
import starlightOpenAPI, { openAPISidebarGroups } from 'starlight-openapi'
import { idOf, ROOT, SIDEBAR } from './src/pages.ts'

const groups = Object.entries(SIDEBAR).map(([label, ids]) => ({
  label,
  items: ids.map((slug) => ({ slug })),
}))
const decisions = globSync('docs/decisions/*.md', { cwd: ROOT }).toSorted()

export default defineConfig({
  trailingSlash: 'always',
  integrations: [
    starlight({
      title: 'Hearth',
      plugins: [starlightOpenAPI([{ base: 'api', schema: 'public/openapi/hearth.json' }])],
      sidebar: [
        ...groups,
        { label: 'Decisions', collapsed: true, items: decisions.map((path) => ({ slug: idOf(path) })) },
        ...openAPISidebarGroups,
      ],
    }),
  ],
})
