import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { mantineStyles } from './mantine-styles.ts'

export default defineConfig({
  base: '/console/',
  plugins: [react(), mantineStyles()],
  // @rjsf/core imports this validator for its own tests. The validator compiles schemas to code, which the page's
  // policy forbids.
  resolve: {
    alias: { '@rjsf/validator-ajv8': new URL('src/playground/validator.ts', import.meta.url).pathname },
  },
  // The gateway replaces the placeholder in each response (api/routes/console/page.ts).
  html: { cspNonce: 'NONCE_PLACEHOLDER' },
  // Images and fonts as data: URLs would need a broader policy than files do.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 700 },
})
