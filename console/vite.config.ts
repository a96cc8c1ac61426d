import react from '@vitejs/plugin-react'
import { defineConfig } from 'vite'
import { mantineStyles } from './mantine-styles.ts'

export default defineConfig({
  base: '/console/',
  plugins: [react(), mantineStyles()],
  // @rjsf/core imports it for its own tests; it compiles schemas to code, which the policy of the page refuses.
  resolve: {
    alias: { '@rjsf/validator-ajv8': new URL('src/playground/validator.ts', import.meta.url).pathname },
  },
  // The gateway replaces it in each response (api/routes/console/page.ts).
  html: { cspNonce: 'NONCE_PLACEHOLDER' },
  // Pictures and fonts as data: would need a wider policy than a file does.
  build: { assetsInlineLimit: 0, modulePreload: { polyfill: false }, chunkSizeWarningLimit: 700 },
})
