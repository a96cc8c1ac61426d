import { getManifest } from './get-manifest.ts'
import { getToolManifest } from './get-tool-manifest.ts'

export const manifest = [getManifest, getToolManifest]
