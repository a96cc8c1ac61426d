import type { AnyRoute } from '../../http/route.ts'
import { getConsoleAsset } from './get-console-asset.ts'
import { consolePages, getConsoleFolder, getRoot } from './get-console.ts'

/** The console (`console/`): one document for every URL, and its assets. */
export const consoleRoutes: readonly AnyRoute[] = [
  getRoot,
  getConsoleFolder,
  ...consolePages,
  getConsoleAsset,
]
