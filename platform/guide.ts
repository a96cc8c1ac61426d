import { resolve } from 'node:path'

/** The path where gateways serve the documentation site; all links in a build start with it. */
export const GUIDE_PATH = '/docs/guide'

/** The folder that `npm run docs:build` writes to and gateways serve. */
export const GUIDE_FOLDER = resolve(import.meta.dirname, '../docs-site/dist')
